#include "sequences/sequence_table.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"

namespace braid {
namespace {

using Reason = SequenceStore::Reason;

// Beyond this number, the error says only that the sequence does not exist.
constexpr size_t kMostRemembered = 4096;

}  // namespace

SequenceTable::SequenceTable(const Options& options, SequenceStore& store)
    : options_(options), store_(store), instances_(options.instances) {
  BRAID_CHECK(options.slots > 0);
}

SequenceTable::~SequenceTable() { BRAID_CHECK(queued_ == 0); }

// --- Incoming requests ---------------------------------------------------------------------------

SequenceTable::Admission SequenceTable::Admit(std::unique_ptr<InferenceRequest>& request, bool last,
                                              int64_t now_ns) {
  Sequence* sequence = Latest(request->correlation_id);
  Admission admission;
  if (!request->sequence_start && (sequence == nullptr || !sequence->open)) {
    store_.CountRejected();
    const auto lost = lost_.find(request->correlation_id);
    if (sequence != nullptr || lost == lost_.end()) {
      admission.answer = Answer::kNeedsStart;
    } else {
      admission.answer = Answer::kLost;
      admission.instance = lost->second;
    }
    return admission;
  }
  if (queued_ >= options_.max_queued) {
    admission.answer = Answer::kFull;
    return admission;
  }
  Sequence* ended = nullptr;
  if (request->sequence_start) {
    Sequence* before = sequence;
    admission.cut_short = before != nullptr && before->open;
    if (admission.cut_short) {
      Close(*before, Reason::kEnded);
      ended = before;
    }
    const CorrelationId& id = request->correlation_id;
    sequence = &Create(store_.Begin(id), id, before, now_ns);
    sequence->takes_over = admission.cut_short;
    lost_.erase(request->correlation_id);
  }
  PushBack(*sequence, std::move(request));
  if (sequence->phase == Sequence::Phase::kResting) EnterBacklog(*sequence, now_ns);
  if (last) Close(*sequence, Reason::kEnded);
  if (ended != nullptr) Settle(*ended, now_ns);
  Settle(*sequence, now_ns);
  admission.sequence = sequence;
  return admission;
}

Sequence* SequenceTable::Restore(SavedSequence saved, int64_t now_ns) {
  if (latest_.contains(saved.id)) return nullptr;
  const CorrelationId id = saved.id;
  const int64_t used_ns = saved.used_ns;
  const uint64_t number = store_.Restore(std::move(saved));
  if (number == 0) return nullptr;
  lost_.erase(id);
  Sequence& sequence = Create(number, id, nullptr, now_ns);
  sequence.used_ns = used_ns;
  if (draining_) Rest(sequence);
  return &sequence;
}

uint64_t SequenceTable::Find(const CorrelationId& id, bool touch, int64_t now_ns) {
  Sequence* sequence = Latest(id);
  if (sequence == nullptr || !sequence->open) return 0;
  if (touch) {
    sequence->used_ns = 0;
    Watch(*sequence, now_ns);
  }
  return sequence->number;
}

void SequenceTable::SetStale(uint64_t number) {
  if (Sequence* sequence = Get(number)) sequence->loaded = false;
}

Sequence& SequenceTable::Create(uint64_t number, const CorrelationId& id, Sequence* before, int64_t now_ns) {
  Sequence& sequence = sequences_[number];
  sequence.number = number;
  sequence.id = id;
  sequence.begun_ns = now_ns;
  latest_[sequence.id] = number;
  if (before == nullptr) {
    EnterBacklog(sequence, now_ns);
  } else {
    sequence.phase = Sequence::Phase::kFollows;
    sequence.predecessor = before->number;
    before->successor = number;
  }
  return sequence;
}

void SequenceTable::PushBack(Sequence& sequence, std::unique_ptr<InferenceRequest> request) {
  request->scheduling.sequence = sequence.number;
  request->scheduling.queued = true;
  sequence.used_ns = 0;
  sequence.queue.push_back(std::move(request));
  ++queued_;
}

void SequenceTable::PushFront(Sequence& sequence, std::unique_ptr<InferenceRequest> request) {
  request->scheduling.queued = true;
  sequence.queue.push_front(std::move(request));
  ++queued_;
}

// --- Slots ---------------------------------------------------------------------------------------

void SequenceTable::EnterBacklog(Sequence& sequence, int64_t now_ns) {
  sequence.phase = Sequence::Phase::kBacklog;
  backlog_.insert(sequence.number);
  Watch(sequence, now_ns);
}

void SequenceTable::Assign(int64_t now_ns) {
  while (!backlog_.empty()) {
    Instance* emptiest = Emptiest();
    if (emptiest == nullptr && draining_ && !idle_.empty()) {
      Rest(*Get(idle_.front()));
      emptiest = Emptiest();
    }
    if (emptiest == nullptr) return;
    Sequence& sequence = *Get(*backlog_.begin());
    backlog_.erase(backlog_.begin());
    const size_t slot = emptiest->gaps.empty() ? emptiest->seats.size() : *emptiest->gaps.begin();
    Seat(sequence, static_cast<size_t>(emptiest - instances_.data()), slot);
    Watch(sequence, now_ns);
  }
}

SequenceTable::Instance* SequenceTable::Emptiest() {
  Instance* emptiest = nullptr;
  const bool others = std::any_of(instances_.begin(), instances_.end(), [](const Instance& instance) {
    return instance.available && instance.vacating == Vacating::kNo;
  });
  for (Instance& instance : instances_) {
    if (!instance.available || instance.taken() >= options_.slots) continue;
    if (instance.vacating == Vacating::kFully || (instance.vacating == Vacating::kIfOthers && others))
      continue;
    if (emptiest == nullptr || instance.taken() < emptiest->taken()) emptiest = &instance;
  }
  return emptiest;
}

void SequenceTable::Rest(Sequence& sequence) {
  Unwatch(sequence);
  if (sequence.phase == Sequence::Phase::kSlot) Unseat(sequence);
  if (sequence.phase == Sequence::Phase::kBacklog) backlog_.erase(sequence.number);
  sequence.phase = Sequence::Phase::kResting;
  sequence.loaded = false;
}

void SequenceTable::BeginDrain() {
  draining_ = true;
  // Restored sequences without requests would only take slots from others.
  const std::set<uint64_t> waiting = backlog_;
  for (const uint64_t number : waiting) {
    if (Sequence& sequence = *Get(number); sequence.queue.empty()) Rest(sequence);
  }
}

void SequenceTable::Seat(Sequence& sequence, size_t instance, size_t slot) {
  Instance& at = instances_[instance];
  if (slot == at.seats.size()) {
    at.seats.push_back(nullptr);
  } else {
    at.gaps.erase(slot);
  }
  BRAID_CHECK(at.seats[slot] == nullptr);
  at.seats[slot] = &sequence;
  sequence.phase = Sequence::Phase::kSlot;
  sequence.instance = instance;
  sequence.slot = slot;
}

void SequenceTable::Unseat(Sequence& sequence) {
  Instance& at = instances_[sequence.instance];
  BRAID_CHECK(at.seats[sequence.slot] == &sequence);
  at.seats[sequence.slot] = nullptr;
  at.gaps.insert(sequence.slot);
  while (!at.seats.empty() && at.seats.back() == nullptr) {
    at.seats.pop_back();
    at.gaps.erase(at.seats.size());
  }
}

// --- Turns ---------------------------------------------------------------------------------------

std::unique_ptr<InferenceRequest> SequenceTable::Begin(Sequence& sequence, int64_t now_ns) {
  BRAID_CHECK(sequence.phase == Sequence::Phase::kSlot && Ready(sequence));
  std::unique_ptr<InferenceRequest> request = std::move(sequence.queue.front());
  sequence.queue.pop_front();
  --queued_;
  sequence.busy = true;
  sequence.answered = false;
  request->scheduling.queued = false;
  request->scheduling.waiting_call.reset();
  request->scheduling.turn = ++sequence.turns;
  Watch(sequence, now_ns);
  return request;
}

Sequence* SequenceTable::Find(uint64_t number, uint32_t turn) {
  Sequence* sequence = Get(number);
  return sequence != nullptr && sequence->busy && sequence->turns == turn ? sequence : nullptr;
}

void SequenceTable::End(uint64_t number, uint32_t turn, int64_t now_ns, Endings& endings) {
  Sequence* sequence = Find(number, turn);
  if (sequence == nullptr) return;
  sequence->busy = false;
  if (store_.savable()) store_.Settle(number);
  if (sequence->phase == Sequence::Phase::kOrphan) {
    Lose(*sequence, now_ns, endings);
  } else {
    Settle(*sequence, now_ns);
  }
}

void SequenceTable::Answered(uint64_t number, uint32_t turn, int64_t now_ns, Endings& endings) {
  Sequence* sequence = Find(number, turn);
  if (sequence == nullptr) return;
  sequence->answered = true;
  if (sequence->phase == Sequence::Phase::kOrphan) End(number, turn, now_ns, endings);
}

bool SequenceTable::Continue(std::unique_ptr<InferenceRequest>& request, int64_t now_ns, Endings& endings) {
  const uint64_t number = request->scheduling.sequence;
  const uint32_t turn = request->scheduling.turn;
  Sequence* sequence = Find(number, turn);
  if (sequence == nullptr) return false;
  PushFront(*sequence, std::move(request));
  End(number, turn, now_ns, endings);
  return true;
}

bool SequenceTable::Undo(std::unique_ptr<InferenceRequest>& request, int64_t now_ns, Endings& endings) {
  Sequence* sequence = Find(request->scheduling.sequence, request->scheduling.turn);
  if (sequence == nullptr) return false;
  if (sequence->phase == Sequence::Phase::kOrphan && sequence->turns > 1) {
    return Continue(request, now_ns, endings);
  }
  PushFront(*sequence, std::move(request));
  sequence->busy = false;
  sequence->loaded = false;
  --sequence->turns;
  if (sequence->phase == Sequence::Phase::kOrphan) {
    EnterBacklog(*sequence, now_ns);
  } else {
    Settle(*sequence, now_ns);
  }
  return true;
}

// --- Ends ----------------------------------------------------------------------------------------

void SequenceTable::Close(Sequence& sequence, Reason reason) {
  if (!sequence.open) return;
  sequence.open = false;
  sequence.reason = reason;
  store_.SetEnding(sequence.number, true);
}

void SequenceTable::Settle(Sequence& sequence, int64_t now_ns) {
  if (!sequence.open && !sequence.busy && sequence.queue.empty()) {
    Finish(sequence, now_ns);
  } else {
    Watch(sequence, now_ns);
  }
}

void SequenceTable::Finish(Sequence& sequence, int64_t now_ns) {
  Unwatch(sequence);
  Sequence* before = Get(sequence.predecessor);
  Sequence* next = Get(sequence.successor);
  if (next != nullptr) {
    next->predecessor = sequence.predecessor;
    // A right to a slot passes on only if this sequence had it too.
    if (before != nullptr) next->takes_over = next->takes_over && sequence.takes_over;
  }
  if (before != nullptr) before->successor = sequence.successor;
  if (next == nullptr) {
    if (before != nullptr) {
      latest_[sequence.id] = before->number;
    } else {
      latest_.erase(sequence.id);
    }
  }
  const bool had_slot = sequence.phase == Sequence::Phase::kSlot;
  if (had_slot) Unseat(sequence);
  if (sequence.phase == Sequence::Phase::kBacklog) backlog_.erase(sequence.number);
  if (next != nullptr && before == nullptr) {
    if (had_slot && next->takes_over) {
      Instance& at = instances_[sequence.instance];
      // Freeing the slot may have shortened the row by more than one.
      const size_t slot = at.gaps.contains(sequence.slot) ? sequence.slot : at.seats.size();
      Seat(*next, sequence.instance, slot);
      Watch(*next, now_ns);
    } else {
      EnterBacklog(*next, now_ns);
    }
  }
  store_.End(sequence.number, sequence.reason);
  sequences_.erase(sequence.number);
}

void SequenceTable::Lose(Sequence& sequence, int64_t now_ns, Endings& endings) {
  sequence.phase = Sequence::Phase::kOrphan;
  sequence.busy = false;
  DropQueue(sequence, EndReason::kLost, endings);
  if (sequence.open) RememberLoss(sequence.id, sequence.instance);
  Close(sequence, Reason::kLost);
  Finish(sequence, now_ns);
}

void SequenceTable::DropQueue(Sequence& sequence, EndReason why, Endings& endings) {
  // The request that would have ended it is dropped too.
  if (!sequence.open && !sequence.queue.empty()) {
    sequence.reason = why == EndReason::kIdle ? Reason::kExpired : Reason::kLost;
  }
  for (auto& request : sequence.queue) {
    request->scheduling.queued = false;
    request->scheduling.waiting_call.reset();
    if (why == EndReason::kDropped) store_.CountRejected();
    endings.push_back({std::move(request), why, OkStatus(), sequence.instance});
    --queued_;
  }
  sequence.queue.clear();
}

std::optional<size_t> SequenceTable::InstanceOf(const InferenceRequest& request) {
  const Sequence* sequence = Get(request.scheduling.sequence);
  if (sequence == nullptr || sequence->phase != Sequence::Phase::kSlot) return std::nullopt;
  return sequence->instance;
}

void SequenceTable::Cancel(const InferenceRequest& request, int64_t now_ns, Endings& endings) {
  Sequence* sequence = Get(request.scheduling.sequence);
  BRAID_CHECK(sequence != nullptr);
  DropQueue(*sequence, EndReason::kCancelled, endings);
  Close(*sequence, Reason::kLost);
  Settle(*sequence, now_ns);
}

void SequenceTable::DropAll(int64_t now_ns, Endings& endings) {
  std::vector<uint64_t> numbers;
  for (auto& [number, sequence] : sequences_) numbers.push_back(number);
  std::sort(numbers.begin(), numbers.end());
  for (uint64_t number : numbers) {
    Sequence* sequence = Get(number);
    DropQueue(*sequence, EndReason::kOutage, endings);
    Close(*sequence, Reason::kLost);
  }
  for (uint64_t number : numbers) {
    if (Sequence* sequence = Get(number)) Settle(*sequence, now_ns);
  }
}

void SequenceTable::DropQueued(Endings& endings) {
  for (auto& [number, sequence] : sequences_) {
    const bool end_waits = !sequence.queue.empty() && sequence.queue.back()->sequence_end;
    DropQueue(sequence, EndReason::kStopping, endings);
    if (!end_waits) continue;
    sequence.open = true;
    store_.SetEnding(number, false);
  }
}

void SequenceTable::Drop(const CorrelationId& id, int64_t now_ns, Endings& endings) {
  std::vector<uint64_t> numbers;
  for (const Sequence* at = Latest(id); at != nullptr; at = Get(at->predecessor)) {
    numbers.push_back(at->number);
  }
  // The last goes first, so that the one before it has no successor.
  for (const uint64_t number : numbers) {
    Sequence& sequence = *Get(number);
    DropQueue(sequence, EndReason::kDropped, endings);
    Close(sequence, Reason::kLost);
    Settle(sequence, now_ns);
  }
}

size_t SequenceTable::begun(size_t instance) const {
  const std::vector<Sequence*>& seats = instances_[instance].seats;
  return static_cast<size_t>(std::count_if(seats.begin(), seats.end(), [](const Sequence* sequence) {
    return sequence != nullptr && sequence->turns > 0;
  }));
}

void SequenceTable::SetAvailable(size_t instance, bool available, int64_t now_ns, Endings& endings) {
  Instance& at = instances_[instance];
  if (available) {
    if (!any_available()) outage_end_ns_ = now_ns;
    at.available = true;
    return;
  }
  at.available = false;
  at.gaps.clear();
  for (Sequence* sequence : std::exchange(at.seats, {})) {
    if (sequence == nullptr) continue;
    sequence->phase = Sequence::Phase::kOrphan;
    Unwatch(*sequence);
    if (sequence->turns == 0) {
      EnterBacklog(*sequence, now_ns);
      if (draining_ && sequence->queue.empty()) Rest(*sequence);
    } else if (!sequence->busy || sequence->answered) {
      Lose(*sequence, now_ns, endings);
    }
    // The others follow when their turn ends.
  }
}

void SequenceTable::RememberLoss(const CorrelationId& id, size_t instance) {
  if (!lost_.insert_or_assign(id, instance).second) return;
  lost_order_.push_back(id);
  if (lost_order_.size() <= kMostRemembered) return;
  lost_.erase(lost_order_.front());
  lost_order_.pop_front();
}

// --- Time ----------------------------------------------------------------------------------------

void SequenceTable::Watch(Sequence& sequence, int64_t now_ns) {
  Unwatch(sequence);
  // A sequence that has had its last request does not expire; it keeps its place.
  if (!sequence.open) return;
  std::list<uint64_t>* list = nullptr;
  if (sequence.phase == Sequence::Phase::kBacklog) list = &waiting_;
  if (sequence.phase == Sequence::Phase::kSlot && !sequence.busy && sequence.queue.empty()) list = &idle_;
  if (list == nullptr) return;
  sequence.since_ns = now_ns;
  auto place = list->end();
  if (list == &idle_ && sequence.used_ns != 0) {
    sequence.since_ns = std::exchange(sequence.used_ns, 0);
    while (place != list->begin() && sequences_.at(*std::prev(place)).since_ns > sequence.since_ns) --place;
  }
  sequence.watched_in = list;
  sequence.watched_at = list->insert(place, sequence.number);
}

void SequenceTable::Unwatch(Sequence& sequence) {
  if (sequence.watched_in == nullptr) return;
  sequence.watched_in->erase(sequence.watched_at);
  sequence.watched_in = nullptr;
}

void SequenceTable::Expire(int64_t now_ns, Endings& endings) {
  const auto expire = [&](const std::list<uint64_t>& list, int64_t since_ns) {
    while (!list.empty()) {
      Sequence& sequence = *Get(list.front());
      if (std::max(sequence.since_ns, since_ns) > now_ns - options_.idle_ns) return;
      Close(sequence, Reason::kExpired);
      DropQueue(sequence, EndReason::kIdle, endings);
      Finish(sequence, now_ns);
    }
  };
  if (!draining_) expire(idle_, INT64_MIN);
  if (any_available()) expire(waiting_, outage_end_ns_);
}

int64_t SequenceTable::next_deadline_ns() const {
  int64_t deadline_ns = kNeverNs;
  if (!idle_.empty() && !draining_) deadline_ns = sequences_.at(idle_.front()).since_ns + options_.idle_ns;
  if (!waiting_.empty() && any_available()) {
    const int64_t since_ns = std::max(sequences_.at(waiting_.front()).since_ns, outage_end_ns_);
    deadline_ns = std::min(deadline_ns, since_ns + options_.idle_ns);
  }
  return deadline_ns;
}

std::vector<SequenceReport> SequenceTable::List(size_t most, int64_t now_ns) const {
  std::vector<std::pair<uint64_t, const Sequence*>> oldest;
  oldest.reserve(sequences_.size());
  for (const auto& [number, sequence] : sequences_) oldest.emplace_back(number, &sequence);
  most = std::min(most, oldest.size());
  std::partial_sort(oldest.begin(), oldest.begin() + static_cast<std::ptrdiff_t>(most), oldest.end());
  std::vector<SequenceReport> reports;
  reports.reserve(most);
  for (size_t i = 0; i < most; ++i) {
    const Sequence& sequence = *oldest[i].second;
    const bool idle = !sequence.busy && sequence.queue.empty();
    reports.push_back(
        {sequence.id, now_ns - sequence.begun_ns, idle ? now_ns - sequence.since_ns : 0, sequence.turns});
  }
  return reports;
}

size_t SequenceTable::unanswered() const {
  const auto runs = [](const auto& entry) { return entry.second.busy && !entry.second.answered; };
  return queued_ + static_cast<size_t>(std::count_if(sequences_.begin(), sequences_.end(), runs));
}

Sequence* SequenceTable::Get(uint64_t number) {
  const auto found = sequences_.find(number);
  return found == sequences_.end() ? nullptr : &found->second;
}

Sequence* SequenceTable::Latest(const CorrelationId& id) {
  const auto found = latest_.find(id);
  return found == latest_.end() ? nullptr : Get(found->second);
}

bool SequenceTable::any_available() const {
  return std::any_of(instances_.begin(), instances_.end(), [](const Instance& i) { return i.available; });
}

}  // namespace braid
