#include "scheduling/batched_model.h"

#include <algorithm>

#include "scheduling/request_intake.h"
#include "scheduling/trace_points.h"

namespace braid {

BatchedModel::BatchedModel(ServableInfo info, std::unique_ptr<BackendModel> backend, BatchingPolicy policy,
                           Timers& timers, Logger& log, const Options& options)
    : InstancePool(std::move(info), std::move(backend), timers, log, options),
      policy_(std::move(policy)),
      cache_(CacheLink::Make(options.cache, info_, statistics_, timers)),
      order_(policy_.preserve_ordering ? std::make_shared<ResponseOrder>() : nullptr),
      queue_(policy_, options.max_queue_size, info_.name) {}

// --- Incoming requests ---------------------------------------------------------------------------

void BatchedModel::Infer(std::unique_ptr<InferenceRequest> request) {
  if (!ReadyToSchedule(info_, options_.images, request)) return;
  request->queue_start_ns = timers_.NowNs();
  request->scheduling = {};
  TraceQueued(*request);
  if (cache_ != nullptr && AnswerFromCache(*request)) return;
  const bool here = request->here;
  // The request, and with it the model, may end before this function returns.
  const std::shared_ptr<InstancePool> self = shared_from_this();
  Listen(*request);
  Change change(*this);
  EnqueueLocked(std::move(request), change.now_ns, change.work);
  change.Perform(here);
}

bool BatchedModel::AnswerFromCache(InferenceRequest& request) {
  std::optional<InferenceResponse> response = cache_->Find(request);
  if (!response) return false;
  response->model_name = info_.name;
  response->model_version = info_.version;
  PruneOutputs(info_, request, response->outputs);
  if (order_ != nullptr) order_->Enter(request);
  request.Respond(std::move(response), true);
  return true;
}

void BatchedModel::EnqueueLocked(std::unique_ptr<InferenceRequest> request, int64_t now_ns, Work& work) {
  InferenceRequest& entered = *request;
  if (stopping_) {
    work.endings.push_back({std::move(request), EndReason::kStopping});
    return;
  }
  if (entered.cancelled()) {
    work.endings.push_back({std::move(request), EndReason::kCancelled});
    return;
  }
  if (Status status = queue_.Push(request, now_ns); !status.ok()) {
    work.endings.push_back({std::move(request), EndReason::kRefused, std::move(status)});
    return;
  }
  if (order_ != nullptr) order_->Enter(entered);
  ScheduleLocked(now_ns, work);
  if (!entered.scheduling.queued || !Awaited(entered)) return;
  Result<CallGraph::Ticket> ticket = WaitInCallGraph(entered);
  if (ticket.ok()) {
    entered.scheduling.waiting_call = std::move(*ticket);
  } else {
    work.endings.push_back({queue_.Remove(entered), EndReason::kRefused, ticket.status()});
  }
}

// --- Scheduling ----------------------------------------------------------------------------------

int64_t BatchedModel::RunLocked(int64_t now_ns, Work& work) {
  if (queue_.next_deadline_ns() <= now_ns) {
    std::vector<std::unique_ptr<InferenceRequest>> rejected;
    queue_.Expire(now_ns, rejected);
    for (auto& request : rejected) work.endings.push_back({std::move(request), EndReason::kTimeout});
  }
  int64_t look_again_ns = kNeverNs;
  while (!queue_.empty()) {
    Slot* slot = PickSlotLocked(now_ns);
    if (slot == nullptr) break;
    const BatchDecision decision = DecideLocked(now_ns);
    if (decision.count == 0) {
      look_again_ns = decision.wait_until_ns;
      break;
    }
    if (slot->inside > 0 && !WaitAheadLocked(*slot, decision.count)) break;
    if (slot->ticket != nullptr && !slot->ticket->TryAcquire()) {
      slot->waits_for_resources = true;
      continue;
    }
    HandOverLocked(*slot, TakeFirstLocked(decision.count), now_ns, work);
  }
  return std::min(look_again_ns, queue_.next_deadline_ns());
}

BatchedModel::Slot* BatchedModel::PickSlotLocked(int64_t now_ns) {
  Slot* least = nullptr;
  for (Slot& slot : slots_) {
    if (!slot.available || slot.waits_for_resources) continue;
    if (slot.inside == 0) return &slot;
    if (!policy_.hands_ahead || slot.instance->makes_calls()) continue;
    // Resources are acquired for one execution at a time.
    if (slot.ticket != nullptr) continue;
    if (least == nullptr || slot.inside < least->inside) least = &slot;
  }
  if (least == nullptr) return nullptr;
  const int depth = PipelineDepth(execute_ns_, now_ns - least->since_ns, !policy_.one_request_each());
  return least->inside < depth ? least : nullptr;
}

BatchDecision BatchedModel::DecideLocked(int64_t now_ns) {
  if (policy_.one_request_each()) return {.count = 1};
  waiting_.clear();
  int64_t rows = 0;
  const InferenceRequest* first = queue_.front();
  for (const InferenceRequest* request = first; request != nullptr; request = queue_.After(*request)) {
    const bool joins = request == first || CanShareBatch(info_, *first, *request);
    waiting_.push_back({std::max<int64_t>(request->batch_size, 1), request->queue_start_ns, joins});
    rows += waiting_.back().rows;
    if (LastOfInterest(policy_, waiting_.back(), rows)) break;
  }
  return DecideBatch(policy_, waiting_, now_ns);
}

bool BatchedModel::WaitAheadLocked(Slot& slot, size_t count) {
  const InferenceRequest* request = queue_.front();
  for (size_t i = 0; i < count; ++i, request = queue_.After(*request)) {
    if (!Awaited(*request)) continue;
    Result<CallGraph::Ticket> ticket = WaitInCallGraph(*request, slot.instance);
    if (!ticket.ok()) {
      while (!slot.ahead.empty() && slot.ahead.back().first == slot.handed) slot.ahead.pop_back();
      return false;
    }
    slot.ahead.emplace_back(slot.handed, std::move(*ticket));
  }
  return true;
}

std::unique_ptr<Execution> BatchedModel::TakeFirstLocked(size_t count) {
  auto execution = std::make_unique<Execution>();
  execution->requests.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    execution->requests.push_back(queue_.PopFront());
    execution->rows += execution->requests.back()->batch_size;
  }
  return execution;
}

// --- Responses -----------------------------------------------------------------------------------

bool BatchedModel::TakeResponse(Instance&, InferenceRequest& request,
                                std::optional<InferenceResponse>& response, bool) {
  if (cache_ != nullptr && response) cache_->Keep(request, *response);
  return true;
}

void BatchedModel::TakeBackLocked(std::deque<std::unique_ptr<Execution>> executions, int64_t, Work& work) {
  // Each goes to the front of the queue, so the last is taken first.
  for (auto execution = executions.rbegin(); execution != executions.rend(); ++execution) {
    auto& requests = (*execution)->requests;
    for (auto request = requests.rbegin(); request != requests.rend(); ++request) {
      InferenceRequest& returned = **request;
      const auto end = [&](EndReason why) { work.endings.push_back({std::move(*request), why}); };
      if (returned.cancelled()) {
        end(EndReason::kCancelled);
      } else if (returned.scheduling.returns >= kMostReturns) {
        end(EndReason::kReturned);
      } else if (stopping_) {
        end(EndReason::kStopping);
      } else {
        if (Awaited(returned)) {
          Result<CallGraph::Ticket> ticket = WaitInCallGraph(returned);
          if (!ticket.ok()) {
            work.endings.push_back({std::move(*request), EndReason::kRefused, ticket.status()});
            continue;
          }
          returned.scheduling.waiting_call = std::move(*ticket);
        }
        queue_.PushFront(std::move(*request));
      }
    }
  }
}

void BatchedModel::CancelLocked(InferenceRequest& request, int64_t, Endings& endings) {
  endings.push_back({queue_.Remove(request), EndReason::kCancelled});
}

void BatchedModel::EndWaitingLocked(EndReason why, int64_t, Endings& endings) {
  while (!queue_.empty()) endings.push_back({queue_.PopFront(), why});
}

}  // namespace braid
