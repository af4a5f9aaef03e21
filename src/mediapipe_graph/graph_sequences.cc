#include "mediapipe_graph/graph_sequences.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <variant>

namespace braid {
namespace {

bool NamesSequence(const InferenceRequest& message) {
  const auto* number = std::get_if<uint64_t>(&message.correlation_id);
  const bool none = number != nullptr ? *number == 0 : std::get<std::string>(message.correlation_id).empty();
  return !none || message.sequence_start || message.sequence_end;
}

}  // namespace

GraphSequence::GraphSequence(CorrelationId id, bool start, bool end,
                             const std::vector<std::shared_ptr<Servable>>& all)
    : id_(id), start_(start), end_(end), tells_(!all.empty()), turn_(std::move(id), start, end) {
  for (const auto& servable : all) parts_.push_back({servable, turn_.Add(servable)});
}

Result<GraphSequence::Ask> GraphSequence::Begin(const std::shared_ptr<Servable>& servable) {
  // Schedulers of other models have rules of their own for what they are told.
  if (!servable->has_sequences()) return Ask{start_, end_, std::nullopt};
  std::lock_guard lock(mutex_);
  auto part = std::find_if(parts_.begin(), parts_.end(), [&servable](const Part& one) {
    return !one.servable.owner_before(servable) && !servable.owner_before(one.servable);
  });
  // One that has come since the message did, in the place of another.
  if (part == parts_.end()) part = parts_.insert(parts_.end(), {servable, turn_.Add(servable)});
  if (part->asked) {
    if (!end_) return Ask();
    return FailedPreconditionError(
        std::string("the message ends its sequence, and asks '")
            .append(servable->info().name)
            .append("' more than once: which one is the last is not known. End the sequence by a message for "
                    "which it is asked once, or at the model itself"));
  }
  part->asked = true;
  if (!begins_or_ends()) return Ask();
  ++open_;
  turn_.Asked(part->of_turn);
  return Ask{start_, end_, part->of_turn};
}

void GraphSequence::End(const Ask& ask, const Status& status) {
  if (!ask.part) return;
  turn_.Answered(*ask.part, status);
  std::lock_guard lock(mutex_);
  --open_;
}

std::optional<uint64_t> GraphSequence::told() const {
  const auto* number = std::get_if<uint64_t>(&id_);
  return tells_ && number != nullptr && *number != 0 ? std::optional(*number) : std::nullopt;
}

bool GraphSequence::answered() const {
  std::lock_guard lock(mutex_);
  return open_ == 0 && std::any_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.asked; });
}

void GraphSequence::TakeBack() {
  turn_.Fail([] {});
}

void GraphSequences::Add(graph::Timestamp at, const InferenceRequest& message) {
  std::shared_ptr<GraphSequence> sequence;  // shared with the nodes that ask for it
  if (NamesSequence(message)) {
    const auto all = servables_->WithSequences();
    CorrelationId id = message.correlation_id;
    const auto* number = std::get_if<uint64_t>(&id);
    const bool unnamed = number != nullptr && *number == 0;
    if (unnamed && message.sequence_start && !all.empty()) id = RandomSequenceId();
    sequence =
        std::make_shared<GraphSequence>(std::move(id), message.sequence_start, message.sequence_end, all);
  }
  std::lock_guard lock(mutex_);
  if (sequence == nullptr && messages_.empty()) return;
  messages_.insert_or_assign(at, sequence);
  if (messages_.size() > kMost) messages_.erase(messages_.begin());
  if (sequence == nullptr || !sequence->begins_or_ends()) return;
  unanswered_.insert_or_assign(at, std::move(sequence));
  if (unanswered_.size() > kMost) unanswered_.erase(unanswered_.begin());
}

std::shared_ptr<GraphSequence> GraphSequences::Find(graph::Timestamp at) const {
  std::lock_guard lock(mutex_);
  const auto after = messages_.upper_bound(at);
  return after == messages_.begin() ? nullptr : std::prev(after)->second;
}

void GraphSequences::Responded(graph::Timestamp at) {
  std::lock_guard lock(mutex_);
  const auto after = unanswered_.upper_bound(at);
  for (auto it = unanswered_.begin(); it != after;)
    it = it->second->answered() ? unanswered_.erase(it) : ++it;
}

void GraphSequences::TakeBack() {
  std::map<graph::Timestamp, std::shared_ptr<GraphSequence>> unanswered;
  {
    std::lock_guard lock(mutex_);
    unanswered.swap(unanswered_);
  }
  for (const auto& [at, sequence] : unanswered) sequence->TakeBack();
}

void TellSequence(const GraphSequence* sequence, InferenceResponse& response) {
  const auto id = sequence != nullptr ? sequence->told() : std::nullopt;
  if (!id) return;
  // A signed number is what most clients read; ids beyond are their own.
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  ParameterValue value = *id;
  if (*id <= kMost) value = static_cast<int64_t>(*id);
  response.parameters.emplace_back(kSequenceIdParameter, std::move(value));
}

}  // namespace braid
