#include <algorithm>

#include "base/guard.h"
#include "scheduling/request_intake.h"
#include "scheduling/sequence_scheduler.h"
#include "scheduling/trace_points.h"

namespace braid {
namespace {

// As in ScheduledModel: so often a request is handed to an instance that dies before it begins.
constexpr int kMostReturns = 3;

}  // namespace

// --- What is done without the lock
// -----------------------------------------------------------------------------------

void SequenceScheduler::Perform(Work& work) {
  // An instance that stands still costs more than a client that hears of an error a little later.
  for (Dispatch& dispatch : work.dispatches) Send(*dispatch.lane, std::move(dispatch.execution));
  for (Ending& ending : work.endings) End(std::move(ending));
  for (SequenceTable::Dropped& drop : work.drops) {
    switch (drop.why) {
      case SequenceTable::Why::kCancelled:
        End({std::move(drop.request), Why::kCancelled});
        break;
      case SequenceTable::Why::kIdle:
        End({std::move(drop.request), Why::kIdle});
        break;
      case SequenceTable::Why::kLost: {
        Status status = LostError(drop.request->correlation_id, drop.instance);
        End({std::move(drop.request), Why::kLost, std::move(status)});
        break;
      }
      case SequenceTable::Why::kDropped: {
        Status status = NeedsStartError(drop.request->correlation_id);
        store_.CountRejected();
        End({std::move(drop.request), Why::kRefused, std::move(status)});
        break;
      }
      case SequenceTable::Why::kAll:
        End({std::move(drop.request), Why::kStopping});
        break;
    }
  }
}

void SequenceScheduler::Send(Lane& lane, std::unique_ptr<Execution> execution) {
  for (;;) {
    for (const auto& request : execution->requests) {
      if (request->cancellation != nullptr) request->cancellation->ClearListener();
      TraceDispatched(*request, execution->compute_start_ns);
    }
    inputs_.Complete(*execution, backend_->input_allocator());
    lane.instance->Execute(std::move(execution));
    std::lock_guard lock(mutex_);
    if (lane.outbox.empty()) {
      lane.sending = false;
      if (stopping_) sent_.notify_all();
      return;
    }
    execution = std::move(lane.outbox.front());
    lane.outbox.pop_front();
  }
}

void SequenceScheduler::End(Ending ending) {
  InferenceRequest& request = *ending.request;
  if (request.cancellation != nullptr) request.cancellation->ClearListener();
  FailureReason reason = FailureReason::kOther;
  if (ending.why == Why::kCancelled) reason = FailureReason::kCanceled;
  if (ending.why == Why::kRefused || ending.why == Why::kIdle) reason = FailureReason::kRejected;
  Status status = ending.status.ok() ? StatusOf(ending.why, request) : std::move(ending.status);
  if (ending.why == Why::kRefused) {
    delivery_.Refuse(request, reason, std::move(status));
  } else {
    delivery_.Fail(request, reason, std::move(status));
  }
}

Status SequenceScheduler::LostError(const CorrelationId& id, size_t instance) const {
  return UnavailableError("sequence " + IdText(id) + " of model '" + info_.name +
                          "' was lost when instance '" + lanes_[instance].instance->name() +
                          "' ended; begin it again with the START flag");
}

Status SequenceScheduler::NeedsStartError(const CorrelationId& id) const {
  return InvalidArgumentError("inference request for sequence " + IdText(id) + " to model '" + info_.name +
                              "' must specify the START flag on the first request of the sequence");
}

Status SequenceScheduler::StatusOf(Why why, const InferenceRequest& request) const {
  const std::string sequence =
      "sequence " + IdText(request.correlation_id) + " of model '" + info_.name + "'";
  switch (why) {
    case Why::kCancelled:
      return CancelledWhileWaiting(info_.name);
    case Why::kIdle:
      return UnavailableError(sequence +
                              " has waited for a slot for longer than max_sequence_idle_microseconds (" +
                              std::to_string(policy_.idle_ns / 1000) + ")");
    case Why::kOutage:
      return NoInstanceLives(info_.name, outage_wait_ns_, backend_->readiness().reason);
    case Why::kReturned:
      return UnavailableError("instances of model '" + info_.name + "' ended " +
                              std::to_string(kMostReturns) + " times before they began with " + sequence);
    case Why::kStopping:
      return StoppedWhileWaiting(info_.name);
    case Why::kRefused:
    case Why::kLost:
      break;
  }
  return InternalError("request to model '" + info_.name + "' was refused");
}

// --- What instances say
// ----------------------------------------------------------------------------------------------

void SequenceScheduler::OnExecuted(Instance& instance, int64_t rows, size_t, const ExecutionTimes& times) {
  Work work;
  {
    const PatientAllocation patience;
    const int64_t now_ns = timers_.NowNs();
    std::lock_guard lock(mutex_);
    if (Lane* lane = LaneOf(instance); lane != nullptr && !lane->inside.empty()) {
      Turns turns = std::move(lane->inside.front());
      lane->inside.pop_front();
      lane->since_ns = now_ns;
      execute_ns_ = UpdateExecuteTime(execute_ns_, times.infer_end_ns - times.input_end_ns);
      if (turn_end_ == TurnEnd::kReturned) {
        for (const Turn& turn : turns) table_->End(turn.sequence, turn.number, now_ns, work.drops);
        ScheduleLocked(now_ns, work);
      } else {
        lane->delivering = true;
        lane->returned = std::move(turns);
      }
    }
  }
  // First of all the instance gets its next execution.
  Perform(work);
  statistics_.RecordExecution(rows, times);
}

void SequenceScheduler::OnDelivered(Instance& instance) {
  if (turn_end_ == TurnEnd::kReturned) return;
  Work work;
  {
    const PatientAllocation patience;
    const int64_t now_ns = timers_.NowNs();
    std::lock_guard lock(mutex_);
    Lane* lane = LaneOf(instance);
    if (lane == nullptr) return;
    lane->delivering = false;
    if (turn_end_ == TurnEnd::kDelivered) {
      for (const Turn& turn : lane->returned) table_->End(turn.sequence, turn.number, now_ns, work.drops);
    }
    lane->returned.clear();
    ScheduleLocked(now_ns, work);
  }
  Perform(work);
}

void SequenceScheduler::OnResponse(Instance& instance, InferenceRequest& request,
                                   std::optional<InferenceResponse> response, bool final,
                                   const ExecutionTimes& times) {
  if (inputs_.IsPadding(request)) return;
  Work work;
  {
    const PatientAllocation patience;
    const int64_t now_ns = timers_.NowNs();
    const SchedulerNotes& notes = request.scheduling;
    std::lock_guard lock(mutex_);
    Sequence* sequence = table_->Find(notes.sequence, notes.turn);
    if (sequence != nullptr && response && inputs_.has_state()) {
      std::vector<Tensor> states = *store_.Get(notes.sequence);
      if (inputs_.TakeState(*response, states)) store_.Put(notes.sequence, std::move(states), false);
    }
    if (sequence != nullptr && final) {
      if (turn_end_ == TurnEnd::kAnswered) {
        table_->End(notes.sequence, notes.turn, now_ns, work.drops);
        Lane* lane = LaneOf(instance);
        if (lane != nullptr && !lane->delivering) ScheduleLocked(now_ns, work);
      } else {
        table_->Answered(notes.sequence, notes.turn, now_ns, work.drops);
      }
    }
  }
  Perform(work);
  request.requested_outputs.resize(request.scheduling.own_outputs);
  delivery_.Respond(request, std::move(response), final, times);
}

void SequenceScheduler::OnRescheduled(Instance& instance, std::unique_ptr<InferenceRequest> request) {
  if (inputs_.IsPadding(*request)) return;
  const int64_t now_ns = timers_.NowNs();
  const SchedulerNotes notes = request->scheduling;
  TurnInputs::Remove(*request);
  Work work;
  if (!policy_.iterative) {
    static constexpr char kText[] =
        "Request is released with TRITONSERVER_REQUEST_RELEASE_RESCHEDULE, while the model is not configured "
        "to handle such a flag.";
    BRAID_LOG_ERROR(log_, "instance '{}': {}", instance.name(), kText);
    {
      std::lock_guard lock(mutex_);
      table_->End(notes.sequence, notes.turn, now_ns, work.drops);
    }
    Perform(work);
    delivery_.Fail(*request, FailureReason::kBackend, InternalError(kText));
    return;
  }
  request->sequence_start = false;
  request->sequence_end = false;
  request->queue_start_ns = now_ns;
  Listen(*request);
  {
    std::lock_guard lock(mutex_);
    InferenceRequest& entered = *request;
    if (stopping_ || !table_->Continue(request, now_ns, work.drops)) {
      work.endings.push_back({std::move(request), Why::kStopping});
      table_->End(notes.sequence, notes.turn, now_ns, work.drops);
    } else if (entered.scheduling.queued && entered.cancelled()) {
      table_->Cancel(entered, now_ns, work.drops);
    }
  }
  Perform(work);
}

void SequenceScheduler::TakeBackLocked(std::deque<std::unique_ptr<Execution>> executions, int64_t now_ns,
                                       Work& work) {
  for (auto& execution : executions) {
    for (auto& request : execution->requests) {
      if (inputs_.IsPadding(*request)) continue;
      InferenceRequest& returned = *request;
      const SchedulerNotes notes = returned.scheduling;
      TurnInputs::Remove(returned);
      if (stopping_ || notes.returns >= kMostReturns) {
        table_->End(notes.sequence, notes.turn, now_ns, work.drops);
        work.endings.push_back({std::move(request), stopping_ ? Why::kStopping : Why::kReturned});
      } else if (!table_->Undo(request, now_ns, work.drops)) {
        work.endings.push_back({std::move(request), Why::kStopping});
      } else if (returned.scheduling.queued && returned.cancelled()) {
        table_->Cancel(returned, now_ns, work.drops);
      }
    }
  }
}

void SequenceScheduler::SetAvailableLocked(Lane& lane, bool available, int64_t now_ns, Work& work) {
  if (lane.available != available) {
    lane.available = available;
    available_ += available ? 1 : -1;
    if (available_ == 0) outage_since_ns_ = now_ns;
    table_->SetAvailable(lane.index, available, now_ns, work.drops);
  }
  // What it had inside belongs to the life before.
  ++lane.life;
  place_->SetAvailable(lane.instance, available);
  lane.inside.clear();
  lane.returned.clear();
  lane.delivering = false;
}

void SequenceScheduler::OnUnstarted(Instance& instance, std::vector<std::unique_ptr<Execution>> executions) {
  std::deque<std::unique_ptr<Execution>> back(std::make_move_iterator(executions.begin()),
                                              std::make_move_iterator(executions.end()));
  for (const auto& execution : back) {
    for (const auto& request : execution->requests) {
      ++request->scheduling.returns;
      Listen(*request);
    }
  }
  Work work;
  {
    const PatientAllocation patience;
    const int64_t now_ns = timers_.NowNs();
    std::lock_guard lock(mutex_);
    Lane* lane = LaneOf(instance);
    // When it has not said yet that it is gone, it gets nothing more until it says how things are.
    const bool unannounced =
        lane != nullptr && lane->available &&
        std::any_of(back.begin(), back.end(), [lane](const auto& e) { return e->life == lane->life; });
    if (unannounced) {
      SetAvailableLocked(*lane, false, now_ns, work);
      TakeBackLocked(std::exchange(lane->outbox, {}), now_ns, work);
    }
    TakeBackLocked(std::move(back), now_ns, work);
    ScheduleLocked(now_ns, work);
  }
  Perform(work);
}

void SequenceScheduler::OnAvailability(Instance& instance, bool available) {
  Work work;
  {
    const PatientAllocation patience;
    const int64_t now_ns = timers_.NowNs();
    std::lock_guard lock(mutex_);
    Lane* lane = LaneOf(instance);
    if (lane == nullptr || (lane->available && available)) return;
    SetAvailableLocked(*lane, available, now_ns, work);
    if (!available) TakeBackLocked(std::exchange(lane->outbox, {}), now_ns, work);
    ScheduleLocked(now_ns, work);
  }
  BRAID_LOG_VERBOSE(log_, "instance '{}' is {}", instance.name(), available ? "available" : "not available");
  Perform(work);
}

void SequenceScheduler::Stop(int64_t deadline_ns) {
  Work work;
  {
    const PatientAllocation patience;
    // Nobody restores what stops.
    std::lock_guard lock(mutex_);
    for (auto& request : held_.Release()) work.endings.push_back({std::move(request), Why::kStopping});
  }
  Perform(work);
  work = {};
  gate().WaitUntilEmpty(deadline_ns);
  {
    std::unique_lock lock(mutex_);
    const int64_t now_ns = timers_.NowNs();
    std::move(cancelled_.begin(), cancelled_.end(), std::back_inserter(work.drops));
    cancelled_.clear();
    for (Lane& lane : lanes_) TakeBackLocked(std::exchange(lane.outbox, {}), now_ns, work);
    // The sequences stay for who saves them now.
    stopping_ = true;
    table_->DropQueued(work.drops);
    timers_.Withdraw(timer_);
    // From here on nobody calls Execute().
    sent_.wait(lock, [this] {
      return std::none_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.sending; });
    });
  }
  if (const size_t left = work.endings.size() + work.drops.size(); left > 0) {
    BRAID_LOG_WARNING(log_, "model '{}' version {} stops with {} requests that did not run", info_.name,
                      info_.version, left);
  }
  Perform(work);
  backend_->Stop(deadline_ns);
  started_ = false;
}

}  // namespace braid
