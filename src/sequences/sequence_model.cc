#include "sequences/sequence_model.h"

#include <algorithm>
#include <random>

#include "scheduling/trace_points.h"
#include "serving/request_check.h"

namespace braid {
namespace {

constexpr size_t kLongestId = 128;
// How often a drain checks whether requests may still come: there is no notification that they cannot.
constexpr int64_t kDrainLookNs = 20'000'000;

bool NamesNone(const CorrelationId& id) {
  const auto* number = std::get_if<uint64_t>(&id);
  return number != nullptr ? *number == 0 : std::get<std::string>(id).empty();
}

// The name of a sequence in texts.
std::string IdText(const CorrelationId& id) {
  const auto* number = std::get_if<uint64_t>(&id);
  return number != nullptr ? std::to_string(*number) : std::get<std::string>(id);
}

Status FullError(const InferenceRequest& request) {
  return UnavailableError(RequestPrefix(request) + "Exceeds maximum queue size");
}

uint64_t FirstGeneratedId() {
  std::random_device random;
  return (uint64_t{random()} << 32) | random();
}

}  // namespace

SequenceModel::TurnEnd SequenceModel::TurnEndOf(const ServableInfo& info, const SequencePolicy& policy,
                                                const TurnInputs& inputs) {
  if (policy.iterative) return TurnEnd::kAnswered;
  if (!inputs.has_state()) return TurnEnd::kReturned;
  return info.decoupled ? TurnEnd::kDelivered : TurnEnd::kAnswered;
}

SequenceStore::Options SequenceModel::StoreOptions(const ServableInfo& info, const SequencePolicy& policy,
                                                   const TurnInputs& inputs) {
  return {.states = inputs.state_specs(),
          .initial = std::make_shared<const std::vector<Tensor>>(inputs.initial_states()),
          // Of other models the server does not have the whole state of a sequence. A sequence of an
          // iterative model is a single request.
          .savable = inputs.has_state() && !policy.iterative,
          .identity = info.sequence_identity};
}

SequenceModel::SequenceModel(ServableInfo info, std::unique_ptr<BackendModel> backend, SequencePolicy policy,
                             Timers& timers, Logger& log, const Options& options)
    : InstancePool(std::move(info), std::move(backend), timers, log, options),
      policy_(std::move(policy)),
      inputs_(info_),
      turn_end_(TurnEndOf(info_, policy_, inputs_)),
      instance_names_(InstanceNames()),
      order_(policy_.batching.preserve_ordering ? std::make_shared<ResponseOrder>() : nullptr),
      next_generated_id_(FirstGeneratedId()),
      store_(StoreOptions(info_, policy_, inputs_)),
      table_({instance_names_.size(), policy_.slots, policy_.idle_ns, options.max_queue_size}, store_),
      lanes_(instance_names_.size()) {}

void SequenceModel::OnStarted(const BackendModel& backend) {
  if (backend.saves_sequences()) {
    inputs_.KeepOwn();
    turn_end_ = TurnEndOf(info_, policy_, inputs_);
    store_.Configure(StoreOptions(info_, policy_, inputs_));
  }
  link_ = StoreLink::Make(*this, info_, options_.state_store, timers_, log_, options_.max_queue_size);
}

// --- Incoming requests ---------------------------------------------------------------------------

Status SequenceModel::CheckSequence(InferenceRequest& request) {
  if (policy_.iterative) {
    if (NamesNone(request.correlation_id)) {
      do {
        request.correlation_id = next_generated_id_.fetch_add(1, std::memory_order_relaxed);
      } while (NamesNone(request.correlation_id));
    }
    request.sequence_start = true;
    request.sequence_end = false;
  }
  if (NamesNone(request.correlation_id)) {
    return InvalidArgumentError("inference request to model '" + info_.name +
                                "' must specify a non-zero or non-empty correlation ID");
  }
  const auto* text = std::get_if<std::string>(&request.correlation_id);
  if (text != nullptr && text->size() > kLongestId) {
    return InvalidArgumentError("string correlation ID cannot be longer than " + std::to_string(kLongestId) +
                                " characters");
  }
  if (info_.max_batch_size > 0 && request.batch_size != 1) {
    return InvalidArgumentError("inference request to model '" + info_.name +
                                "' must specify batch-size 1 due to requirements of sequence batcher");
  }
  return OkStatus();
}

void SequenceModel::Infer(std::unique_ptr<InferenceRequest> request) {
  Status status = CheckRequest(info_, *request);
  if (status.ok()) status = CheckSequence(*request);
  Result<Buffer> id_bytes = status.ok() ? inputs_.EncodeId(request->correlation_id) : Result<Buffer>(status);
  if (!id_bytes.ok()) {
    request->Refuse(id_bytes.status());
  } else if (link_ != nullptr) {
    link_->Take(std::move(request));
  } else {
    Enter(std::move(request), std::move(*id_bytes));
  }
}

void SequenceModel::Run(std::unique_ptr<InferenceRequest> request) {
  // Cannot fail: the id was encoded before, when the request was checked.
  Result<Buffer> id_bytes = inputs_.EncodeId(request->correlation_id);
  Enter(std::move(request), std::move(*id_bytes));
}

void SequenceModel::Enter(std::unique_ptr<InferenceRequest> request, Buffer id_bytes) {
  // The request, and with it the model, may end before this function returns.
  const std::shared_ptr<InstancePool> self = shared_from_this();
  request->queue_start_ns = timers_.NowNs();
  request->scheduling = {};
  TraceQueued(*request);
  Listen(*request);

  Change change(*this);
  if (stopping_) {
    change.work.endings.push_back({std::move(request), EndReason::kStopping});
  } else if (held_.holding()) {
    HoldLocked(std::move(request), change.work);
  } else {
    EnterLocked(std::move(request), std::move(id_bytes), change.now_ns, change.work);
  }
  change.Perform();
}

void SequenceModel::EnterLocked(std::unique_ptr<InferenceRequest> request, Buffer id_bytes, int64_t now_ns,
                                Work& work) {
  InferenceRequest& entered = *request;
  AdmitLocked(std::move(request), std::move(id_bytes), now_ns, work);
  ScheduleLocked(now_ns, work);
  if (entered.scheduling.queued && Awaited(entered)) EnterCallGraphLocked(entered, now_ns, work);
}

void SequenceModel::AdmitLocked(std::unique_ptr<InferenceRequest> request, Buffer id_bytes, int64_t now_ns,
                                Work& work) {
  InferenceRequest& entered = *request;
  const auto refuse = [&](Status status) {
    work.endings.push_back({std::move(request), EndReason::kRefused, std::move(status)});
  };
  // A sequence that has expired must not be continued.
  table_.Expire(now_ns, work.endings);
  const SequenceTable::Admission admission =
      table_.Admit(request, policy_.iterative || entered.sequence_end, now_ns);
  switch (admission.answer) {
    case SequenceTable::Answer::kNeedsStart:
      return refuse(NeedsStartError(entered.correlation_id));
    case SequenceTable::Answer::kLost:
      return refuse(LostError(entered.correlation_id, admission.instance));
    case SequenceTable::Answer::kFull:
      return refuse(FullError(entered));
    case SequenceTable::Answer::kQueued:
      break;
  }
  if (entered.sequence_start) admission.sequence->id_bytes = std::move(id_bytes);
  if (admission.cut_short) {
    BRAID_LOG_WARNING(log_,
                      "sequence {} of model '{}' restarts before it has ended; the earlier sequence is ended",
                      IdText(entered.correlation_id), info_.name);
  }
  if (order_ != nullptr) order_->Enter(entered);
  if (entered.cancelled()) table_.Cancel(entered, now_ns, work.endings);
}

void SequenceModel::EnterCallGraphLocked(InferenceRequest& request, int64_t now_ns, Work& work) {
  const std::optional<size_t> instance = table_.InstanceOf(request);
  Result<CallGraph::Ticket> ticket =
      WaitInCallGraph(request, instance ? slots_[*instance].instance : nullptr);
  if (ticket.ok()) {
    request.scheduling.waiting_call = std::move(*ticket);
    return;
  }
  const size_t before = work.endings.size();
  table_.Cancel(request, now_ns, work.endings);
  for (size_t i = before; i < work.endings.size(); ++i) {
    Ending& ending = work.endings[i];
    if (ending.request.get() != &request) continue;
    ending.why = EndReason::kRefused;
    ending.status = ticket.status();
  }
}

void SequenceModel::CancelLocked(InferenceRequest& request, int64_t now_ns, Endings& endings) {
  if (request.scheduling.sequence == 0) {
    endings.push_back({held_.Remove(request), EndReason::kCancelled});
  } else {
    table_.Cancel(request, now_ns, endings);
  }
}

// --- Scheduling ----------------------------------------------------------------------------------

int64_t SequenceModel::RunLocked(int64_t now_ns, Work& work) {
  table_.Expire(now_ns, work.endings);
  int64_t look_again_ns = AssignLocked(now_ns);
  for (Slot& slot : slots_) look_again_ns = std::min(look_again_ns, RunLaneLocked(slot, now_ns, work));
  return std::min(look_again_ns, table_.next_deadline_ns());
}

int64_t SequenceModel::AssignLocked(int64_t now_ns) {
  table_.Assign(now_ns);
  if (!draining_ || !gate().closed() || !table_.waits_for_idle()) return kNeverNs;
  // The model's own state of a sequence is bound to its slot. The sequence therefore keeps its slot while a
  // request of it may still come, such as a step of an ensemble.
  if (gate().inside() > table_.unanswered()) return now_ns + kDrainLookNs;
  table_.BeginDrain();
  table_.Assign(now_ns);
  return kNeverNs;
}

bool SequenceModel::HasRoomLocked(const Slot& slot, int64_t now_ns) const {
  if (!slot.available || lanes_[slot.index].delivering) return false;
  if (slot.inside == 0) return true;
  if (slot.instance->makes_calls()) return false;
  // The slots of a batch are filled anew each time, so no executions are handed over ahead.
  if (policy_.strategy == SequenceStrategy::kDirect || turn_end_ != TurnEnd::kReturned) return false;
  return slot.inside < PipelineDepth(execute_ns_, now_ns - slot.since_ns, true);
}

int64_t SequenceModel::RunLaneLocked(Slot& slot, int64_t now_ns, Work& work) {
  const bool direct = policy_.strategy == SequenceStrategy::kDirect;
  while (HasRoomLocked(slot, now_ns)) {
    const std::vector<Sequence*>& seats = table_.seats(slot.index);
    const BatchDecision decision =
        direct ? DecideSlotsLocked(seats, now_ns) : DecideOldestLocked(seats, now_ns);
    if (decision.count == 0) return decision.wait_until_ns;
    chosen_.resize(decision.count);
    BeginTurnsLocked(slot, now_ns, work);
  }
  return kNeverNs;
}

BatchDecision SequenceModel::DecideSlotsLocked(const std::vector<Sequence*>& seats, int64_t now_ns) {
  const auto arrived = [](const Sequence* s) { return s->queue.front()->queue_start_ns; };
  const Sequence* oldest = nullptr;
  for (const Sequence* sequence : seats) {
    if (sequence == nullptr || !SequenceTable::Ready(*sequence)) continue;
    if (oldest == nullptr || arrived(sequence) < arrived(oldest)) oldest = sequence;
  }
  if (oldest == nullptr) return {};
  views_.clear();
  chosen_.clear();
  for (Sequence* sequence : seats) {
    const bool ready =
        sequence != nullptr && SequenceTable::Ready(*sequence) &&
        (sequence == oldest || CanShareBatch(info_, *oldest->queue.front(), *sequence->queue.front()));
    views_.push_back(
        {.taken = sequence != nullptr, .ready = ready, .arrived_ns = ready ? arrived(sequence) : 0});
    chosen_.push_back(ready ? sequence : nullptr);
  }
  return DecideSlots(policy_, views_, now_ns);
}

BatchDecision SequenceModel::DecideOldestLocked(const std::vector<Sequence*>& seats, int64_t now_ns) {
  chosen_.clear();
  for (Sequence* sequence : seats) {
    if (sequence != nullptr && SequenceTable::Ready(*sequence)) chosen_.push_back(sequence);
  }
  if (chosen_.empty()) return {};
  std::sort(chosen_.begin(), chosen_.end(), [](const Sequence* a, const Sequence* b) {
    const int64_t a_ns = a->queue.front()->queue_start_ns;
    const int64_t b_ns = b->queue.front()->queue_start_ns;
    return a_ns != b_ns ? a_ns < b_ns : a->number < b->number;
  });
  const InferenceRequest& first = *chosen_.front()->queue.front();
  // Sequences do not wait for each other, so others may pass one whose request does not fit in.
  std::erase_if(chosen_, [&](const Sequence* sequence) {
    return sequence->queue.front().get() != &first && !CanShareBatch(info_, first, *sequence->queue.front());
  });
  waiting_.clear();
  for (const Sequence* sequence : chosen_) {
    waiting_.push_back({.rows = 1, .arrived_ns = sequence->queue.front()->queue_start_ns});
  }
  return DecideBatch(policy_.batching, waiting_, now_ns);
}

void SequenceModel::BeginTurnsLocked(Slot& slot, int64_t now_ns, Work& work) {
  auto execution = std::make_unique<Execution>();
  Turns turns;
  for (Sequence* sequence : chosen_) {
    if (sequence == nullptr) {
      execution->requests.push_back(inputs_.MakePadding());
      continue;
    }
    auto request = table_.Begin(*sequence, now_ns);
    const bool load = !std::exchange(sequence->loaded, true) && !request->sequence_start;
    inputs_.Add(sequence->id_bytes,
                inputs_.has_state() ? *store_.Get(sequence->number) : inputs_.initial_states(), load,
                *request);
    turns.push_back({request->scheduling.sequence, request->scheduling.turn});
    execution->requests.push_back(std::move(request));
  }
  execution->rows = static_cast<int64_t>(execution->requests.size());
  lanes_[slot.index].inside.push_back(std::move(turns));
  HandOverLocked(slot, std::move(execution), now_ns, work);
}

// --- Responses -----------------------------------------------------------------------------------

void SequenceModel::OnReturnedLocked(Slot& slot, int64_t now_ns, Work& work) {
  Lane& lane = lanes_[slot.index];
  if (lane.inside.empty()) return;
  Turns turns = std::move(lane.inside.front());
  lane.inside.pop_front();
  if (turn_end_ == TurnEnd::kReturned) {
    for (const Turn& turn : turns) table_.End(turn.sequence, turn.number, now_ns, work.endings);
  } else {
    lane.delivering = true;
    lane.returned = std::move(turns);
  }
}

void SequenceModel::OnDelivered(Instance& instance) {
  if (turn_end_ == TurnEnd::kReturned) return;
  Change change(*this);
  const Slot* slot = SlotOf(instance);
  if (slot == nullptr) return;
  Lane& lane = lanes_[slot->index];
  lane.delivering = false;
  if (turn_end_ == TurnEnd::kDelivered) {
    for (const Turn& turn : lane.returned) {
      table_.End(turn.sequence, turn.number, change.now_ns, change.work.endings);
    }
  }
  lane.returned.clear();
  change.Finish();
}

size_t SequenceModel::OnReplacing(Instance& instance, bool last_call) {
  MutexLock lock(mutex_);
  const Slot* slot = SlotOf(instance);
  if (slot == nullptr) return 0;
  table_.SetVacating(slot->index,
                     last_call ? SequenceTable::Vacating::kFully : SequenceTable::Vacating::kIfOthers);
  return table_.begun(slot->index);
}

void SequenceModel::OnReplaced(Instance& instance) {
  Change change(*this);
  const Slot* slot = SlotOf(instance);
  if (slot == nullptr) return;
  table_.SetVacating(slot->index, SequenceTable::Vacating::kNo);
  change.Finish();
}

bool SequenceModel::TakeResponse(Instance& instance, InferenceRequest& request,
                                 std::optional<InferenceResponse>& response, bool final) {
  if (inputs_.IsPadding(request)) return false;
  const SchedulerNotes& notes = request.scheduling;
  Change change(*this);
  Sequence* sequence = table_.Find(notes.sequence, notes.turn);
  if (sequence != nullptr && response && inputs_.has_state()) {
    std::vector<Tensor> states = *store_.Get(notes.sequence);
    // After a failed step, the instance's state is unknown.
    sequence->loaded = inputs_.TakeState(request, *response, states);
    if (sequence->loaded) store_.Put(notes.sequence, std::move(states), false);
  }
  if (sequence != nullptr && final) {
    Endings& endings = change.work.endings;
    if (turn_end_ == TurnEnd::kAnswered) {
      table_.End(notes.sequence, notes.turn, change.now_ns, endings);
      const Slot* slot = SlotOf(instance);
      if (slot != nullptr && !lanes_[slot->index].delivering) ScheduleLocked(change.now_ns, change.work);
    } else {
      table_.Answered(notes.sequence, notes.turn, change.now_ns, endings);
    }
  }
  change.Perform();
  request.requested_outputs.resize(request.scheduling.own_outputs);
  return true;
}

void SequenceModel::Reschedule(Instance& instance, std::unique_ptr<InferenceRequest> request) {
  if (inputs_.IsPadding(*request)) return;
  const SchedulerNotes notes = request->scheduling;
  TurnInputs::Remove(*request);
  if (!policy_.iterative) {
    {
      Change change(*this);
      table_.End(notes.sequence, notes.turn, change.now_ns, change.work.endings);
      change.Perform();
    }
    InstancePool::Reschedule(instance, std::move(request));
    return;
  }
  request->sequence_start = false;
  request->sequence_end = false;
  request->queue_start_ns = timers_.NowNs();
  Listen(*request);
  Change change(*this);
  Endings& endings = change.work.endings;
  InferenceRequest& entered = *request;
  if (stopping_ || !table_.Continue(request, change.now_ns, endings)) {
    endings.push_back({std::move(request), EndReason::kStopping});
    table_.End(notes.sequence, notes.turn, change.now_ns, endings);
  } else if (entered.scheduling.queued && entered.cancelled()) {
    table_.Cancel(entered, change.now_ns, endings);
  }
  change.Perform();
}

void SequenceModel::TakeBackLocked(std::deque<std::unique_ptr<Execution>> executions, int64_t now_ns,
                                   Work& work) {
  for (auto& execution : executions) {
    for (auto& request : execution->requests) {
      if (inputs_.IsPadding(*request)) continue;
      InferenceRequest& returned = *request;
      const SchedulerNotes notes = returned.scheduling;
      TurnInputs::Remove(returned);
      if (stopping_ || notes.returns >= kMostReturns) {
        table_.End(notes.sequence, notes.turn, now_ns, work.endings);
        work.endings.push_back({std::move(request), stopping_ ? EndReason::kStopping : EndReason::kReturned});
      } else if (!table_.Undo(request, now_ns, work.endings)) {
        work.endings.push_back({std::move(request), EndReason::kStopping});
      } else if (returned.scheduling.queued && returned.cancelled()) {
        table_.Cancel(returned, now_ns, work.endings);
      }
    }
  }
}

void SequenceModel::OnNewLifeLocked(Slot& slot, bool changed, int64_t now_ns, Work& work) {
  if (changed) table_.SetAvailable(slot.index, slot.available, now_ns, work.endings);
  lanes_[slot.index] = {};
}

void SequenceModel::EndWaitingLocked(EndReason why, int64_t now_ns, Endings& endings) {
  if (why == EndReason::kOutage) {
    table_.DropAll(now_ns, endings);
  } else {
    // The sequences stay, to be saved.
    table_.DropQueued(endings);
  }
}

// --- Texts ---------------------------------------------------------------------------------------

Status SequenceModel::LostError(const CorrelationId& id, size_t instance) const {
  return UnavailableError("sequence " + IdText(id) + " of model '" + info_.name +
                          "' was lost when instance '" + instance_names_[instance] +
                          "' ended; restart it with the START flag");
}

Status SequenceModel::NeedsStartError(const CorrelationId& id) const {
  return InvalidArgumentError("inference request for sequence " + IdText(id) + " to model '" + info_.name +
                              "' must specify the START flag on the first request of the sequence");
}

Status SequenceModel::StatusOf(const Ending& ending) const {
  const CorrelationId& id = ending.request->correlation_id;
  const auto sequence = [&] { return "sequence " + IdText(id) + " of model '" + info_.name + "'"; };
  switch (ending.why) {
    case EndReason::kIdle:
      return UnavailableError(sequence() +
                              " has waited for a slot longer than max_sequence_idle_microseconds (" +
                              std::to_string(policy_.idle_ns / 1000) + ")");
    case EndReason::kLost:
      return LostError(id, ending.instance);
    case EndReason::kDropped:
      return NeedsStartError(id);
    case EndReason::kReturned:
      return UnavailableError("instances of model '" + info_.name + "' ended " +
                              std::to_string(kMostReturns) + " times before they began with " + sequence());
    default:
      return InstancePool::StatusOf(ending);
  }
}

// --- The keeper ----------------------------------------------------------------------------------

SequenceKeeper* SequenceModel::sequences() {
  if (link_ != nullptr) return link_.get();
  return this;
}

void SequenceModel::Stop(int64_t deadline_ns) {
  if (link_ != nullptr) link_->BeginStop();
  InstancePool::Stop(deadline_ns);
}

int64_t SequenceModel::pending_requests() const {
  return InstancePool::pending_requests() + (link_ == nullptr ? 0 : link_->waiting());
}

std::optional<SequenceStore::Held> SequenceModel::Look(const CorrelationId& id, bool touch) {
  MutexLock lock(mutex_);
  return store_.Look(table_.Find(id, touch, timers_.NowNs()));
}

void SequenceModel::SetLease(const CorrelationId& id, const OwnershipLease& lease) {
  MutexLock lock(mutex_);
  store_.SetLease(table_.Find(id, false, timers_.NowNs()), lease);
}

void SequenceModel::PutBack(const CorrelationId& id, const SequenceStore::Held& held) {
  MutexLock lock(mutex_);
  const uint64_t number = table_.Find(id, false, timers_.NowNs());
  store_.PutBack(number, held);
  table_.SetStale(number);
}

std::vector<SequenceReport> SequenceModel::List(size_t most) const {
  MutexLock lock(mutex_);
  return table_.List(most, timers_.NowNs());
}

void SequenceModel::Drop(const CorrelationId& id) {
  const std::shared_ptr<InstancePool> self = shared_from_this();
  Change change(*this);
  table_.Drop(id, change.now_ns, change.work.endings);
  change.Finish();
}

void SequenceModel::HoldLocked(std::unique_ptr<InferenceRequest> request, Work& work) {
  if (request->cancelled()) {
    work.endings.push_back({std::move(request), EndReason::kCancelled});
  } else if (held_.size() >= options_.max_queue_size) {
    Status full = FullError(*request);
    work.endings.push_back({std::move(request), EndReason::kRefused, std::move(full)});
  } else {
    held_.Add(std::move(request));
  }
}

void SequenceModel::ReleaseLocked(int64_t now_ns, Work& work) {
  for (auto& request : held_.Release()) {
    // Cannot fail: the id was encoded before, when the request was checked.
    Result<Buffer> id_bytes = inputs_.EncodeId(request->correlation_id);
    EnterLocked(std::move(request), std::move(*id_bytes), now_ns, work);
  }
}

size_t SequenceModel::Restore(std::vector<SavedSequence> saved) {
  const std::shared_ptr<InstancePool> self = shared_from_this();
  size_t taken = 0;
  Change change(*this);
  if (stopping_) return 0;
  // In the order in which they expire.
  std::ranges::stable_sort(saved, {}, &SavedSequence::used_ns);
  for (SavedSequence& one : saved) {
    Result<Buffer> id_bytes = inputs_.EncodeId(one.id);
    if (!savable() || NamesNone(one.id) || !id_bytes.ok()) continue;
    Sequence* sequence = table_.Restore(std::move(one), change.now_ns);
    if (sequence == nullptr) continue;
    sequence->id_bytes = std::move(*id_bytes);
    ++taken;
  }
  ReleaseLocked(change.now_ns, change.work);
  change.Finish();
  return taken;
}

void SequenceModel::BeginDrain() {
  const std::shared_ptr<InstancePool> self = shared_from_this();
  Change change(*this);
  draining_ = true;
  // The server's state of a sequence does not depend on its slot.
  if (savable()) table_.BeginDrain();
  change.Finish();
}

}  // namespace braid
