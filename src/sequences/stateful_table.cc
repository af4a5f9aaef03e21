#include "sequences/stateful_table.h"

#include "base/check.h"

namespace braid {

StatefulTable::~StatefulTable() { BRAID_CHECK(waiting_ == 0); }

// --- Incoming requests ---------------------------------------------------------------------------

StatefulTable::Answer StatefulTable::Admit(std::unique_ptr<InferenceRequest>& request) {
  if (request->sequence_start) return Start(request);
  const auto number = numbers_.find(std::get<uint64_t>(request->correlation_id));
  if (number == numbers_.end()) return Refuse(Answer::kMissing);
  Sequence& sequence = sequences_.at(number->second);
  if (sequence.terminated) return Refuse(Answer::kMissing);
  if (sequence.busy && waiting_ >= options_.max_waiting) return Answer::kNoRoom;
  request->scheduling.sequence = number->second;
  if (request->sequence_end) SetTerminated(number->second, sequence, true);
  if (!sequence.busy) {
    sequence.busy = true;
    return Answer::kBegins;
  }
  request->scheduling.queued = true;
  sequence.waiting.Append(std::move(request));
  ++waiting_;
  return Answer::kWaits;
}

StatefulTable::Answer StatefulTable::Start(std::unique_ptr<InferenceRequest>& request) {
  if (numbers_.size() >= options_.max_sequences) return Refuse(Answer::kTooMany);
  auto id = std::get<uint64_t>(request->correlation_id);
  if (id == 0) id = FreeId();
  if (const auto number = numbers_.find(id); number != numbers_.end()) {
    return Refuse(sequences_.at(number->second).terminated ? Answer::kTerminated : Answer::kExists);
  }
  request->correlation_id = id;
  const uint64_t number = store_.Begin(id);
  numbers_.emplace(id, number);
  Sequence& sequence = sequences_[number];
  sequence.id = id;
  sequence.busy = true;
  request->scheduling.sequence = number;
  if (request->sequence_end) SetTerminated(number, sequence, true);
  return Answer::kBegins;
}

StatefulTable::Answer StatefulTable::Refuse(Answer answer) {
  store_.CountRejected();
  return answer;
}

uint64_t StatefulTable::FreeId() {
  // Advances only if its id is taken, so that a free id is given again.
  while (next_id_ == 0 || numbers_.contains(next_id_)) ++next_id_;
  return next_id_;
}

uint64_t StatefulTable::Find(uint64_t id, bool touch) {
  const auto number = numbers_.find(id);
  if (number == numbers_.end()) return 0;
  if (touch) sequences_.at(number->second).idle = false;
  return number->second;
}

std::optional<SequenceStore::Mark> StatefulTable::Mark(uint64_t id) const {
  const auto number = numbers_.find(id);
  return number == numbers_.end() ? std::nullopt : store_.MarkOf(number->second);
}

bool StatefulTable::Restore(SavedSequence saved) {
  const auto* id = std::get_if<uint64_t>(&saved.id);
  if (id == nullptr || *id == 0 || numbers_.contains(*id)) return false;
  if (numbers_.size() >= options_.max_sequences) return false;
  const uint64_t kept_id = *id;
  const bool idle = saved.idle;
  const uint64_t number = store_.Restore(std::move(saved));
  if (number == 0) return false;
  numbers_.emplace(kept_id, number);
  sequences_[number].id = kept_id;
  sequences_[number].idle = idle;
  return true;
}

bool StatefulTable::IsIdle(uint64_t id) const {
  const auto number = numbers_.find(id);
  return number != numbers_.end() && sequences_.at(number->second).idle;
}

// --- Turns ---------------------------------------------------------------------------------------

bool StatefulTable::End(const InferenceRequest& request, Outcome outcome, Requests& refused) {
  const uint64_t number = request.scheduling.sequence;
  const auto found = sequences_.find(number);
  BRAID_CHECK(found != sequences_.end() && found->second.busy);
  Sequence& sequence = found->second;
  const bool fails_to_start = request.sequence_start && outcome != Outcome::kGood;
  const bool ends = request.sequence_end && outcome != Outcome::kFailed;
  if (sequence.dropped || fails_to_start || ends) {
    sequence.busy = false;
    Finish(number, sequence, ends && !fails_to_start ? Reason::kEnded : Reason::kLost, refused);
    return false;
  }
  if (request.sequence_end) SetTerminated(number, sequence, false);
  if (outcome == Outcome::kGood) sequence.idle = false;
  return true;
}

std::unique_ptr<InferenceRequest> StatefulTable::Next(uint64_t number) {
  const auto found = sequences_.find(number);
  BRAID_CHECK(found != sequences_.end() && found->second.busy);
  Sequence& sequence = found->second;
  if (!sequence.waiting.empty()) return Remove(sequence, *sequence.waiting.first());
  sequence.busy = false;
  if (sequence.dropped || sequence.ends_cancelled) {
    Requests none;
    Finish(number, sequence, Reason::kEnded, none);
  }
  return nullptr;
}

std::unique_ptr<InferenceRequest> StatefulTable::Remove(Sequence& sequence, InferenceRequest& request) {
  request.scheduling.queued = false;
  --waiting_;
  return sequence.waiting.Remove(request);
}

std::unique_ptr<InferenceRequest> StatefulTable::Cancel(InferenceRequest& request) {
  // Requests wait behind a running turn, so the sequence cannot end here.
  Sequence& sequence = sequences_.at(request.scheduling.sequence);
  if (request.sequence_end) sequence.ends_cancelled = true;
  return Remove(sequence, request);
}

void StatefulTable::EndWithoutRequest(uint64_t id) {
  const auto number = numbers_.find(id);
  if (number == numbers_.end()) return;
  Sequence& sequence = sequences_.at(number->second);
  if (sequence.terminated) return;
  SetTerminated(number->second, sequence, true);
  if (sequence.busy) {
    sequence.ends_cancelled = true;
    return;
  }
  Requests none;
  Finish(number->second, sequence, Reason::kEnded, none);
}

void StatefulTable::SetTerminated(uint64_t number, Sequence& sequence, bool terminated) {
  sequence.terminated = terminated;
  store_.SetEnding(number, terminated);
}

// --- Ends ----------------------------------------------------------------------------------------

void StatefulTable::Finish(uint64_t number, Sequence& sequence, Reason reason, Requests& refused) {
  while (!sequence.waiting.empty()) {
    refused.push_back(Remove(sequence, *sequence.waiting.first()));
    store_.CountRejected();
  }
  if (!sequence.dropped) {
    numbers_.erase(sequence.id);
    store_.End(number, reason);
  }
  if (sequence.busy) {
    sequence.dropped = true;
  } else {
    sequences_.erase(number);
  }
}

void StatefulTable::CleanUp() {
  std::vector<uint64_t> ended;
  for (auto& [number, sequence] : sequences_) {
    if (sequence.busy || sequence.terminated) continue;
    if (sequence.idle) ended.push_back(number);
    sequence.idle = true;
  }
  Requests none;
  for (const uint64_t number : ended) {
    Finish(number, sequences_.at(number), Reason::kExpired, none);
  }
}

void StatefulTable::Drop(uint64_t id, Requests& refused) {
  const auto number = numbers_.find(id);
  if (number == numbers_.end()) return;
  Finish(number->second, sequences_.at(number->second), Reason::kLost, refused);
}

void StatefulTable::RefuseWaiting(Requests& refused) {
  for (auto& [number, sequence] : sequences_) {
    while (!sequence.waiting.empty()) {
      InferenceRequest& request = *sequence.waiting.first();
      if (request.sequence_end) SetTerminated(number, sequence, false);
      refused.push_back(Remove(sequence, request));
    }
  }
}

}  // namespace braid
