#include "scheduling/sequence_scheduler.h"

#include <algorithm>
#include <random>

#include "base/guard.h"
#include "scheduling/trace_points.h"
#include "serving/request_check.h"

namespace braid {
namespace {

constexpr size_t kLongestId = 128;
// How often it is looked, in a drain, whether requests may still come: nobody tells that they do not.
constexpr int64_t kDrainLookNs = 20'000'000;

bool NamesNone(const CorrelationId& id) {
  const auto* number = std::get_if<uint64_t>(&id);
  return number != nullptr ? *number == 0 : std::get<std::string>(id).empty();
}

Status FullError(const InferenceRequest& request) {
  return UnavailableError(RequestPrefix(request) + "Exceeds maximum queue size");
}

uint64_t FirstGeneratedId() {
  std::random_device random;
  return (uint64_t{random()} << 32) | random();
}

}  // namespace

std::string IdText(const CorrelationId& id) {
  const auto* number = std::get_if<uint64_t>(&id);
  return number != nullptr ? std::to_string(*number) : std::get<std::string>(id);
}

SequenceScheduler::TurnEnd SequenceScheduler::TurnEndOf(const ServableInfo& info,
                                                        const SequencePolicy& policy,
                                                        const TurnInputs& inputs) {
  if (policy.iterative) return TurnEnd::kAnswered;
  if (!inputs.has_state()) return TurnEnd::kReturned;
  return info.decoupled ? TurnEnd::kDelivered : TurnEnd::kAnswered;
}

SequenceScheduler::SequenceScheduler(ServableInfo info, std::unique_ptr<BackendModel> backend,
                                     SequencePolicy policy, Timers& timers, Logger& log,
                                     const Options& options)
    : SequenceModel(std::move(info)),
      policy_(std::move(policy)),
      timers_(timers),
      log_(log),
      inputs_(info_),
      turn_end_(TurnEndOf(info_, policy_, inputs_)),
      delivery_(info_, statistics_, timers),
      order_(policy_.batching.preserve_ordering ? std::make_shared<ResponseOrder>() : nullptr),
      call_graph_(*options.call_graph),
      place_(std::make_shared<CallGraph::Place>(info_.name)),
      max_queue_size_(options.max_queue_size),
      outage_wait_ns_(options.outage_wait_ns),
      next_generated_id_(FirstGeneratedId()),
      store_(StoreOptions(info_, policy_, inputs_)),
      held_(timers),
      outage_since_ns_(timers.NowNs()),
      backend_(std::move(backend)) {
  for (Instance* instance : backend_->instances()) {
    if (instance->passive()) continue;
    lanes_.emplace_back(instance, lanes_.size());
    place_->Add(instance, instance->name());
  }
  available_ = lanes_.size();
  table_ = std::make_unique<SequenceTable>(
      SequenceTable::Options{lanes_.size(), policy_.slots, policy_.idle_ns, options.max_queue_size}, store_);
}

SequenceStore::Options SequenceScheduler::StoreOptions(const ServableInfo& info, const SequencePolicy& policy,
                                                       const TurnInputs& inputs) {
  return {.states = inputs.state_specs(),
          .initial = std::make_shared<const std::vector<Tensor>>(inputs.initial_states()),
          // Of other models the server does not have all that there is to a sequence; one of an iterative
          // model is a single request.
          .savable = inputs.has_state() && !policy.iterative,
          .identity = info.sequence_identity};
}

Status SequenceScheduler::StartInstances(const std::function<void(const std::string&)>& progress) {
  BRAID_RETURN_IF_ERROR(backend_->Start(warmup_, progress));
  started_ = true;
  // What the samples hold is not needed again.
  const std::vector<WarmupSample> samples = std::exchange(info_.warmup, {});
  return warmup_.Run(
      info_, backend_->instances(), samples, [this](InferenceRequest& request) { inputs_.AddLone(request); },
      progress);
}

// --- Requests in
// -----------------------------------------------------------------------------------------------------

Status SequenceScheduler::CheckSequence(InferenceRequest& request) {
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

void SequenceScheduler::Infer(std::unique_ptr<InferenceRequest> request) {
  Status status = CheckRequest(info_, *request);
  if (status.ok()) status = CheckSequence(*request);
  Result<Buffer> id_bytes = status.ok() ? inputs_.EncodeId(request->correlation_id) : Result<Buffer>(status);
  if (!id_bytes.ok()) {
    request->Refuse(id_bytes.status());
    return;
  }
  // The request may have ended, and the model with it, before the last lines of this function.
  const std::shared_ptr<SequenceScheduler> self = shared_from_this();
  const int64_t now_ns = timers_.NowNs();
  request->queue_start_ns = now_ns;
  request->scheduling = {};
  TraceQueued(*request);
  Listen(*request);

  Work work;
  {
    const PatientAllocation patience;
    std::lock_guard lock(mutex_);
    if (stopping_) {
      work.endings.push_back({std::move(request), Why::kStopping});
    } else if (held_.holding()) {
      HoldLocked(std::move(request), work);
    } else {
      EnterLocked(std::move(request), std::move(*id_bytes), now_ns, work);
    }
  }
  Perform(work);
}

void SequenceScheduler::EnterLocked(std::unique_ptr<InferenceRequest> request, Buffer id_bytes,
                                    int64_t now_ns, Work& work) {
  InferenceRequest& entered = *request;
  AdmitLocked(std::move(request), std::move(id_bytes), now_ns, work);
  ScheduleLocked(now_ns, work);
  if (entered.scheduling.queued) EnterCallGraphLocked(entered, now_ns, work);
}

void SequenceScheduler::AdmitLocked(std::unique_ptr<InferenceRequest> request, Buffer id_bytes,
                                    int64_t now_ns, Work& work) {
  InferenceRequest& entered = *request;
  const auto refuse = [&](Status status) {
    work.endings.push_back({std::move(request), Why::kRefused, std::move(status)});
  };
  // What is over already must not be taken for one that goes on.
  table_->Expire(now_ns, work.drops);
  const SequenceTable::Admission admission =
      table_->Admit(request, policy_.iterative || entered.sequence_end, now_ns);
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
                      "sequence {} of model '{}' begins anew before it has ended; the earlier sequence is "
                      "ended early",
                      IdText(entered.correlation_id), info_.name);
  }
  if (order_ != nullptr) order_->Enter(entered);
  if (entered.cancelled()) table_->Cancel(entered, now_ns, work.drops);
}

void SequenceScheduler::EnterCallGraphLocked(InferenceRequest& request, int64_t now_ns, Work& work) {
  if (!CallGraph::Concerns(request.call_chain.get())) return;
  const std::optional<size_t> instance = table_->InstanceOf(request);
  auto ticket = call_graph_.Wait(place_, request.call_chain, instance ? lanes_[*instance].instance : nullptr);
  if (ticket.ok()) {
    request.scheduling.waiting_call = std::move(*ticket);
    return;
  }
  SequenceTable::Drops drops;
  table_->Cancel(request, now_ns, drops);
  for (auto& drop : drops) {
    if (drop.request.get() == &request) {
      work.endings.push_back({std::move(drop.request), Why::kRefused, ticket.status()});
    } else {
      work.drops.push_back(std::move(drop));
    }
  }
}

void SequenceScheduler::Listen(InferenceRequest& request) {
  if (request.cancellation == nullptr) return;
  // The listener is cleared before the request leaves the scheduler, so both pointers hold while it can be
  // called.
  request.cancellation->SetListener([this, entered = &request] { OnCancelled(*entered); });
}

void SequenceScheduler::OnCancelled(InferenceRequest& request) {
  const PatientAllocation patience;
  std::lock_guard lock(mutex_);
  // One that is not queued yet sees its cancellation when it is; one that is no longer queued runs.
  if (!request.scheduling.queued) return;
  const int64_t now_ns = timers_.NowNs();
  // This is called from within the Cancellation, so the request cannot end here.
  if (request.scheduling.sequence == 0) {
    cancelled_.push_back({held_.Remove(request), SequenceTable::Why::kCancelled, 0});
  } else {
    table_->Cancel(request, now_ns, cancelled_);
  }
  ArmLocked(now_ns);
}

// --- What runs next
// --------------------------------------------------------------------------------------------------

void SequenceScheduler::ScheduleLocked(int64_t now_ns, Work& work) {
  if (stopping_) return;
  table_->Expire(now_ns, work.drops);
  int64_t look_again_ns = AssignLocked(now_ns);
  for (Lane& lane : lanes_) look_again_ns = std::min(look_again_ns, ScheduleLaneLocked(lane, now_ns, work));
  if (available_ == 0 && table_->queued() > 0) {
    look_again_ns = outage_since_ns_ + outage_wait_ns_;
    if (look_again_ns <= now_ns) {
      SequenceTable::Drops drops;
      table_->DropAll(now_ns, drops);
      for (auto& drop : drops) work.endings.push_back({std::move(drop.request), Why::kOutage});
    }
  }
  ArmLocked(std::min(look_again_ns, table_->next_deadline_ns()));
}

int64_t SequenceScheduler::AssignLocked(int64_t now_ns) {
  table_->Assign(now_ns);
  if (!draining_ || !gate().closed() || !table_->waits_for_idle()) return kNeverNs;
  // What a model keeps of a sequence is bound to its slot, so that stays its own while a request of it may
  // still be on its way, as a step of an ensemble is.
  if (gate().inside() > table_->unanswered()) return now_ns + kDrainLookNs;
  table_->BeginDrain();
  table_->Assign(now_ns);
  return kNeverNs;
}

bool SequenceScheduler::HasRoomLocked(const Lane& lane, int64_t now_ns) const {
  if (!lane.available || lane.delivering) return false;
  if (lane.inside.empty()) return true;
  if (lane.instance->makes_calls()) return false;
  // The places of a batch are filled anew each time, so nothing is given ahead.
  if (policy_.strategy == SequenceStrategy::kDirect || turn_end_ != TurnEnd::kReturned) return false;
  const int depth = PipelineDepth(execute_ns_, now_ns - lane.since_ns, true);
  return lane.inside.size() < static_cast<size_t>(depth);
}

int64_t SequenceScheduler::ScheduleLaneLocked(Lane& lane, int64_t now_ns, Work& work) {
  const bool direct = policy_.strategy == SequenceStrategy::kDirect;
  while (HasRoomLocked(lane, now_ns)) {
    const std::vector<Sequence*>& seats = table_->seats(lane.index);
    const BatchDecision decision =
        direct ? DecideSlotsLocked(seats, now_ns) : DecideOldestLocked(seats, now_ns);
    if (decision.count == 0) return decision.wait_until_ns;
    chosen_.resize(decision.count);
    HandOverLocked(lane, now_ns, work);
  }
  return kNeverNs;
}

BatchDecision SequenceScheduler::DecideSlotsLocked(const std::vector<Sequence*>& seats, int64_t now_ns) {
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

BatchDecision SequenceScheduler::DecideOldestLocked(const std::vector<Sequence*>& seats, int64_t now_ns) {
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
  // No sequence waits for another, so that one whose request does not fit in lets others pass.
  std::erase_if(chosen_, [&](const Sequence* sequence) {
    return sequence->queue.front().get() != &first && !CanShareBatch(info_, first, *sequence->queue.front());
  });
  waiting_.clear();
  for (const Sequence* sequence : chosen_) {
    waiting_.push_back({.rows = 1, .arrived_ns = sequence->queue.front()->queue_start_ns});
  }
  return DecideBatch(policy_.batching, waiting_, now_ns);
}

void SequenceScheduler::HandOverLocked(Lane& lane, int64_t now_ns, Work& work) {
  auto execution = std::make_unique<Execution>();
  Turns turns;
  for (Sequence* sequence : chosen_) {
    if (sequence == nullptr) {
      execution->requests.push_back(inputs_.MakePadding());
      continue;
    }
    auto request = table_->Begin(*sequence, now_ns);
    inputs_.Add(sequence->id_bytes,
                inputs_.has_state() ? *store_.Get(sequence->number) : inputs_.initial_states(), *request);
    turns.push_back({request->scheduling.sequence, request->scheduling.turn});
    execution->requests.push_back(std::move(request));
  }
  execution->rows = static_cast<int64_t>(execution->requests.size());
  execution->compute_start_ns = now_ns;
  execution->life = lane.life;
  if (lane.inside.empty()) lane.since_ns = now_ns;
  lane.inside.push_back(std::move(turns));
  if (lane.sending) {
    lane.outbox.push_back(std::move(execution));
  } else {
    lane.sending = true;
    work.dispatches.push_back({&lane, std::move(execution)});
  }
}

void SequenceScheduler::ArmLocked(int64_t deadline_ns) {
  // A timer that fires too early only looks again, so the present one stays unless it would be too late.
  if (deadline_ns >= timer_deadline_ns_ || stopping_) return;
  timers_.Withdraw(timer_);
  timer_deadline_ns_ = deadline_ns;
  timer_ = timers_.At(deadline_ns, [weak = weak_from_this()] {
    if (std::shared_ptr<SequenceScheduler> self = weak.lock()) self->OnTimer();
  });
}

void SequenceScheduler::OnTimer() {
  const int64_t now_ns = timers_.NowNs();
  Work work;
  {
    const PatientAllocation patience;
    std::lock_guard lock(mutex_);
    timer_ = {};
    timer_deadline_ns_ = kNeverNs;
    std::move(cancelled_.begin(), cancelled_.end(), std::back_inserter(work.drops));
    cancelled_.clear();
    ScheduleLocked(now_ns, work);
  }
  Perform(work);
}

// --- The keeper -------------------------------------------------------------------------------------

void SequenceScheduler::Drop(const CorrelationId& id) {
  const std::shared_ptr<SequenceScheduler> self = shared_from_this();
  const int64_t now_ns = timers_.NowNs();
  Work work;
  {
    const PatientAllocation patience;
    std::lock_guard lock(mutex_);
    table_->Drop(id, now_ns, work.drops);
    ScheduleLocked(now_ns, work);
  }
  Perform(work);
}

void SequenceScheduler::HoldUntilRestored(int64_t deadline_ns) {
  std::lock_guard lock(mutex_);
  if (stopping_) return;
  held_.Hold(deadline_ns, [weak = weak_from_this()] {
    if (std::shared_ptr<SequenceScheduler> self = weak.lock()) self->OnHeldTooLong();
  });
}

void SequenceScheduler::HoldLocked(std::unique_ptr<InferenceRequest> request, Work& work) {
  if (request->cancelled()) {
    work.endings.push_back({std::move(request), Why::kCancelled});
  } else if (held_.size() >= max_queue_size_) {
    Status full = FullError(*request);
    work.endings.push_back({std::move(request), Why::kRefused, std::move(full)});
  } else {
    held_.Add(std::move(request));
  }
}

void SequenceScheduler::ReleaseLocked(int64_t now_ns, Work& work) {
  for (auto& request : held_.Release()) {
    // It was encoded once before, when the request was checked.
    Result<Buffer> id_bytes = inputs_.EncodeId(request->correlation_id);
    EnterLocked(std::move(request), std::move(*id_bytes), now_ns, work);
  }
}

void SequenceScheduler::OnHeldTooLong() {
  const int64_t now_ns = timers_.NowNs();
  Work work;
  {
    const PatientAllocation patience;
    std::lock_guard lock(mutex_);
    if (!stopping_) ReleaseLocked(now_ns, work);
  }
  Perform(work);
}

size_t SequenceScheduler::Restore(std::vector<SavedSequence> saved) {
  const std::shared_ptr<SequenceScheduler> self = shared_from_this();
  const int64_t now_ns = timers_.NowNs();
  size_t taken = 0;
  Work work;
  {
    const PatientAllocation patience;
    std::lock_guard lock(mutex_);
    if (stopping_) return 0;
    for (SavedSequence& one : saved) {
      Result<Buffer> id_bytes = inputs_.EncodeId(one.id);
      if (!savable() || NamesNone(one.id) || !id_bytes.ok()) continue;
      Sequence* sequence = table_->Restore(std::move(one), now_ns);
      if (sequence == nullptr) continue;
      sequence->id_bytes = std::move(*id_bytes);
      ++taken;
    }
    ReleaseLocked(now_ns, work);
    ScheduleLocked(now_ns, work);
  }
  Perform(work);
  return taken;
}

void SequenceScheduler::BeginDrain() {
  const std::shared_ptr<SequenceScheduler> self = shared_from_this();
  const int64_t now_ns = timers_.NowNs();
  Work work;
  {
    const PatientAllocation patience;
    std::lock_guard lock(mutex_);
    draining_ = true;
    // What the server has of a sequence does not depend on its slot.
    if (savable()) table_->BeginDrain();
    ScheduleLocked(now_ns, work);
  }
  Perform(work);
}

}  // namespace braid
