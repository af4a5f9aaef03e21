#include "sequences/stateful_model.h"

#include <algorithm>

#include "base/guard.h"
#include "images/encoded_images.h"
#include "scheduling/request_intake.h"
#include "scheduling/trace_points.h"
#include "serving/compensation.h"
#include "serving/faults.h"
#include "serving/sequence_inputs.h"

namespace braid {
namespace {

ServableInfo WithSequenceId(const ServableInfo& info) {
  ServableInfo full = info;
  full.warmup.clear();
  TensorSpec& id = full.outputs.emplace_back();
  id.name = kSequenceIdInput;
  id.type = DataType::kUint64;
  id.shape = {1};
  return full;
}

Ending Refusal(std::unique_ptr<InferenceRequest> request, Fault code) {
  return {std::move(request), EndReason::kRefused, FaultError(code)};
}

}  // namespace

StatefulModel::StatefulModel(ServableInfo info, std::unique_ptr<BackendModel> backend, BatchingPolicy policy,
                             Timers& timers, Logger& log, const Options& options)
    : BatchedModel(std::move(info), std::move(backend), std::move(policy), timers, log, options),
      full_info_(WithSequenceId(info_)),
      store_({.states = info_.stateful->states,
              .initial = nullptr,
              .savable = true,
              .identity = info_.sequence_identity}),
      table_({.max_sequences = info_.stateful->max_sequences, .max_waiting = options.max_queue_size}, store_),
      link_(StoreLink::Make(*this, info_, options.state_store, timers, log, options.max_queue_size)) {}

Ending StatefulModel::NoRoom(std::unique_ptr<InferenceRequest> request) const {
  Status status = TooManyWaitForSequences(*request, options_.max_queue_size, info_.name);
  return {std::move(request), EndReason::kRefused, std::move(status)};
}

// --- Incoming requests ---------------------------------------------------------------------------

void StatefulModel::Infer(std::unique_ptr<InferenceRequest> request) {
  if (Status status = TakeSequenceInputs(*request); !status.ok()) {
    request->Refuse(std::move(status));
  } else if (link_ != nullptr) {
    link_->Take(std::move(request));
  } else {
    Run(std::move(request));
  }
}

void StatefulModel::Run(std::unique_ptr<InferenceRequest> request) {
  if (NeedsDecoding(full_info_, *request)) {
    Decode(std::move(request));
    return;
  }
  if (Status status = FinishIntake(full_info_, *request); !status.ok()) {
    request->Refuse(std::move(status));
    return;
  }
  Arrive(std::move(request), nullptr);
}

void StatefulModel::Decode(std::unique_ptr<InferenceRequest> request) {
  PerKeyEntry* entry = nullptr;
  // A start without an id has no requests before it, and none after it can know its id yet.
  if (const auto id = std::get<uint64_t>(request->correlation_id); id != 0) {
    Change change(*this);
    if (arrivals_.Last(id) == nullptr || arrivals_.behind() < options_.max_queue_size) {
      entry = &arrivals_.Enter(id);
    } else {
      change.work.endings.push_back(NoRoom(std::move(request)));
      change.Perform();
      return;
    }
  }
  // The request's entry in the servable keeps this object alive.
  options_.images->DecodeThen(std::move(request), [this, entry](auto decoded, Status status) {
    OnDecoded(std::move(decoded), entry, std::move(status));
  });
}

void StatefulModel::OnDecoded(std::unique_ptr<InferenceRequest> request, PerKeyEntry* entry, Status status) {
  if (status.ok()) status = FinishIntake(full_info_, *request);
  if (status.ok()) {
    Arrive(std::move(request), entry);
    return;
  }
  const std::shared_ptr<InstancePool> self = shared_from_this();
  Work work;
  if (entry != nullptr) {
    const bool ends = EndsSequence(*request) && status.code() == StatusCode::kCancelled;
    Change change(*this);
    AdvanceLocked(ends ? arrivals_.Abandon(*entry) : arrivals_.Leave(*entry), change.now_ns, change.work);
    work = std::move(change.work);
  }
  request->Refuse(std::move(status));
  Perform(std::move(work), false);
}

void StatefulModel::Arrive(std::unique_ptr<InferenceRequest> request, PerKeyEntry* entry) {
  // The request, and with it the model, may end before this function returns.
  const std::shared_ptr<InstancePool> self = shared_from_this();
  request->queue_start_ns = timers_.NowNs();
  request->scheduling = {};
  TraceQueued(*request);
  Listen(*request);
  const bool here = request->here;
  Change change(*this);
  ArriveLocked(std::move(request), entry, change.now_ns, change.work);
  change.Perform(here);
}

void StatefulModel::ArriveLocked(std::unique_ptr<InferenceRequest> request, PerKeyEntry* entry,
                                 int64_t now_ns, Work& work) {
  if (stopping_) {
    work.endings.push_back({std::move(request), EndReason::kStopping});
    if (entry != nullptr) AdvanceLocked(arrivals_.Leave(*entry), now_ns, work);
    return;
  }
  if (entry == nullptr) {
    const auto id = std::get<uint64_t>(request->correlation_id);
    if (arrivals_.empty() || arrivals_.Last(id) == nullptr)
      return AdmitLocked(std::move(request), now_ns, work);
    if (arrivals_.behind() >= options_.max_queue_size) {
      work.endings.push_back(NoRoom(std::move(request)));
      return;
    }
    entry = &arrivals_.Enter(id);
  }
  InferenceRequest& entered = *request;
  PerKeyQueue::Runnable runnable = arrivals_.Ready(*entry, std::move(request));
  if (runnable.entry == nullptr && entered.cancelled()) {
    work.endings.push_back({LeaveCancelledLocked(*entry), EndReason::kCancelled});
  }
  AdvanceLocked(std::move(runnable), now_ns, work);
}

void StatefulModel::AdvanceLocked(PerKeyQueue::Runnable runnable, int64_t now_ns, Work& work) {
  while (runnable.entry != nullptr) {
    if (runnable.request == nullptr) {
      if (held_.holding()) {
        HoldEndLocked(runnable.entry->id());
      } else {
        table_.EndWithoutRequest(runnable.entry->id());
      }
    } else if (stopping_) {
      work.endings.push_back({std::move(runnable.request), EndReason::kStopping});
    } else {
      AdmitLocked(std::move(runnable.request), now_ns, work);
    }
    runnable = arrivals_.Leave(*runnable.entry);
  }
}

// An entry that leaves from behind others makes none runnable.
std::unique_ptr<InferenceRequest> StatefulModel::LeaveCancelledLocked(PerKeyEntry& entry) {
  auto request = arrivals_.Withdraw(entry);
  if (EndsSequence(*request)) {
    arrivals_.Abandon(entry);
  } else {
    arrivals_.Leave(entry);
  }
  return request;
}

void StatefulModel::AdmitLocked(std::unique_ptr<InferenceRequest> request, int64_t now_ns, Work& work) {
  if (held_.holding()) return HoldLocked(std::move(request), work);
  InferenceRequest& entered = *request;
  const auto refuse = [&](Fault code) { work.endings.push_back(Refusal(std::move(request), code)); };
  switch (table_.Admit(request)) {
    case StatefulTable::Answer::kBegins:
      return BeginTurnLocked(std::move(request), now_ns, work);
    case StatefulTable::Answer::kWaits:
      // The call graph need not know of it: it waits for turns that have begun. They wait in the queue, where
      // the graph sees them, or run on instances that make no calls; no backend of such models does.
      if (entered.cancelled()) work.endings.push_back({table_.Cancel(entered), EndReason::kCancelled});
      return;
    case StatefulTable::Answer::kTooMany:
      return refuse(Fault::kMaxSequenceNumberReached);
    case StatefulTable::Answer::kExists:
      return refuse(Fault::kSequenceAlreadyExists);
    case StatefulTable::Answer::kTerminated:
      return refuse(Fault::kSequenceTerminated);
    case StatefulTable::Answer::kMissing:
      return refuse(Fault::kSequenceMissing);
    case StatefulTable::Answer::kNoRoom:
      work.endings.push_back(NoRoom(std::move(request)));
      return;
  }
}

void StatefulModel::CancelLocked(InferenceRequest& request, int64_t now_ns, Endings& endings) {
  if (request.scheduling.turn != 0) {
    BatchedModel::CancelLocked(request, now_ns, endings);
  } else if (PerKeyEntry* entry = request.scheduling.entry) {
    endings.push_back({LeaveCancelledLocked(*entry), EndReason::kCancelled});
  } else if (request.scheduling.sequence != 0) {
    endings.push_back({table_.Cancel(request), EndReason::kCancelled});
  } else {
    if (EndsSequence(request)) HoldEndLocked(std::get<uint64_t>(request.correlation_id));
    endings.push_back({held_.Remove(request), EndReason::kCancelled});
  }
}

// --- Turns ---------------------------------------------------------------------------------------

void StatefulModel::BeginTurnLocked(std::unique_ptr<InferenceRequest> request, int64_t now_ns, Work& work) {
  SchedulerNotes& notes = request->scheduling;
  notes.turn = 1;
  // The states and all outputs are needed, regardless of the client's requested outputs.
  notes.wanted_outputs = std::exchange(request->requested_outputs, {});
  if (const SequenceStore::States states = store_.Get(notes.sequence)) {
    request->inputs.insert(request->inputs.end(), states->begin(), states->end());
  }
  EnqueueLocked(std::move(request), now_ns, work);
}

bool StatefulModel::TakeResponse(Instance&, InferenceRequest& request,
                                 std::optional<InferenceResponse>& response, bool) {
  if (!response || !response->status.ok()) return true;
  const RetryingAllocation retrying;
  std::vector<Tensor>& outputs = response->outputs;
  const std::vector<StateSpec>& specs = store_.states();
  const size_t own = outputs.size() - std::min(outputs.size(), specs.size());
  std::vector<Tensor> states(std::make_move_iterator(outputs.begin() + static_cast<ptrdiff_t>(own)),
                             std::make_move_iterator(outputs.end()));
  outputs.resize(own);
  if (Status status = store_.Check(states); !status.ok()) {
    outputs.clear();
    response->status =
        InternalError("model '" + info_.name + "' returned invalid states: " + status.message());
    return true;
  }
  if (!request.sequence_end) {
    for (size_t i = 0; i < states.size(); ++i) states[i].name = specs[i].name;
    store_.Put(request.scheduling.sequence, std::move(states), true);
  }
  outputs.push_back(SequenceIdOutput(std::get<uint64_t>(request.correlation_id)));
  request.requested_outputs = std::move(request.scheduling.wanted_outputs);
  return true;
}

InstancePool::NextInSequence StatefulModel::OnEnd(InferenceRequest& request, Outcome outcome) {
  const SchedulerNotes& notes = request.scheduling;
  if (notes.turn == 0) return {};
  // A start that was never answered has left no states to continue from.
  if (outcome == Outcome::kGood && request.sequence_start && !request.sequence_end &&
      !store_.HasRun(notes.sequence)) {
    outcome = Outcome::kFailed;
  }
  const auto end = outcome == Outcome::kGood     ? StatefulTable::Outcome::kGood
                   : outcome == Outcome::kFailed ? StatefulTable::Outcome::kFailed
                                                 : StatefulTable::Outcome::kCancelled;
  const RetryingAllocation retrying;
  NextInSequence followers;
  {
    MutexLock lock(mutex_);
    if (table_.End(request, end, followers.refused)) followers.sequence = notes.sequence;
  }
  if (followers.sequence != 0 || !followers.refused.empty()) followers.pool = shared_from_this();
  return followers;
}

void StatefulModel::Follow(NextInSequence followers, Work& work) {
  const RetryingAllocation retrying;
  for (auto& request : followers.refused) {
    work.endings.push_back(Refusal(std::move(request), Fault::kSequenceMissing));
  }
  if (followers.sequence == 0) return;
  MutexLock lock(mutex_);
  if (auto next = table_.Next(followers.sequence)) BeginTurnLocked(std::move(next), timers_.NowNs(), work);
}

// --- The keeper ----------------------------------------------------------------------------------

SequenceKeeper* StatefulModel::sequences() {
  if (link_ != nullptr) return link_.get();
  return this;
}

uint64_t StatefulModel::NumberOf(const CorrelationId& id, bool touch) {
  const auto* number = std::get_if<uint64_t>(&id);
  return number == nullptr ? 0 : table_.Find(*number, touch);
}

std::optional<SequenceStore::Held> StatefulModel::Look(const CorrelationId& id, bool touch) {
  MutexLock lock(mutex_);
  return store_.Look(NumberOf(id, touch));
}

void StatefulModel::SetLease(const CorrelationId& id, const OwnershipLease& lease) {
  MutexLock lock(mutex_);
  store_.SetLease(NumberOf(id, false), lease);
}

void StatefulModel::PutBack(const CorrelationId& id, const SequenceStore::Held& held) {
  MutexLock lock(mutex_);
  store_.PutBack(NumberOf(id, false), held);
}

void StatefulModel::CleanUp() {
  if (!info_.stateful->idle_cleanup) return;
  MutexLock lock(mutex_);
  table_.CleanUp();
}

void StatefulModel::Drop(const CorrelationId& id) {
  const auto* number = std::get_if<uint64_t>(&id);
  if (number == nullptr) return;
  const std::shared_ptr<InstancePool> self = shared_from_this();
  StatefulTable::Requests refused;
  Change change(*this);
  table_.Drop(*number, refused);
  for (auto& request : refused) {
    change.work.endings.push_back(Refusal(std::move(request), Fault::kSequenceMissing));
  }
  change.Perform();
}

TakeBackSteps StatefulModel::Mark(const CorrelationId& id) {
  const auto* number = std::get_if<uint64_t>(&id);
  if (number == nullptr) return nullptr;
  std::optional<SequenceStore::Mark> mark;
  {
    MutexLock lock(mutex_);
    mark = table_.Mark(*number);
  }
  if (!mark) return nullptr;
  return [this, weak = weak_from_this(), mark = *std::move(mark)](uint64_t steps) {
    if (const std::shared_ptr<InstancePool> self = weak.lock()) store_.TakeBack(mark, steps);
  };
}

void StatefulModel::HoldLocked(std::unique_ptr<InferenceRequest> request, Work& work) {
  if (request->cancelled()) {
    if (EndsSequence(*request)) HoldEndLocked(std::get<uint64_t>(request->correlation_id));
    work.endings.push_back({std::move(request), EndReason::kCancelled});
  } else if (held_.size() >= options_.max_queue_size) {
    work.endings.push_back(NoRoom(std::move(request)));
  } else {
    held_.Add(std::move(request));
  }
}

void StatefulModel::HoldEndLocked(uint64_t id) {
  if (held_ends_.size() < options_.max_queue_size) held_ends_.push_back(id);
}

void StatefulModel::ReleaseLocked(int64_t now_ns, Work& work) {
  for (auto& request : held_.Release()) AdmitLocked(std::move(request), now_ns, work);
  for (const uint64_t id : std::exchange(held_ends_, {})) table_.EndWithoutRequest(id);
}

std::vector<SavedSequence> StatefulModel::Save() const {
  std::vector<SavedSequence> saved = store_.Save();
  MutexLock lock(mutex_);
  for (SavedSequence& one : saved) one.idle = table_.IsIdle(std::get<uint64_t>(one.id));
  return saved;
}

size_t StatefulModel::Restore(std::vector<SavedSequence> saved) {
  const std::shared_ptr<InstancePool> self = shared_from_this();
  size_t taken = 0;
  Change change(*this);
  if (stopping_) return 0;
  for (SavedSequence& sequence : saved) taken += table_.Restore(std::move(sequence)) ? 1 : 0;
  ReleaseLocked(change.now_ns, change.work);
  change.Perform();
  return taken;
}

// --- Stop ----------------------------------------------------------------------------------------

void StatefulModel::Stop(int64_t deadline_ns) {
  if (link_ != nullptr) link_->BeginStop();
  BatchedModel::Stop(deadline_ns);
}

int64_t StatefulModel::pending_requests() const {
  return BatchedModel::pending_requests() + (link_ == nullptr ? 0 : link_->waiting());
}

void StatefulModel::BeginStopLocked(Work& work) {
  InstancePool::BeginStopLocked(work);
  held_ends_.clear();
}

void StatefulModel::EndWaitingLocked(EndReason why, int64_t now_ns, Endings& endings) {
  BatchedModel::EndWaitingLocked(why, now_ns, endings);
  if (why == EndReason::kOutage) return;
  StatefulTable::Requests waiting;
  table_.RefuseWaiting(waiting);
  for (auto& request : waiting) endings.push_back({std::move(request), why});
  for (PerKeyEntry* entry : arrivals_.Waiting()) {
    endings.push_back({arrivals_.Withdraw(*entry), why});
    arrivals_.Leave(*entry);
  }
}

}  // namespace braid
