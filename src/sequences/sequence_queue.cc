#include "sequences/sequence_queue.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/guard.h"
#include "scheduling/request_intake.h"
#include "scheduling/trace_points.h"

namespace braid {
namespace {

const std::string& NameOf(const InferenceRequest& request) { return request.servable->get().info().name; }

}  // namespace

Result<SequenceQueue::Entry*> SequenceQueue::Enter(Runner& runner, const InferenceRequest& request) {
  const uint64_t id = std::get<uint64_t>(request.correlation_id);
  const ServableInfo& info = request.servable->get().info();
  auto entry = std::make_unique<Entry>();
  entry->runner_ = &runner;
  RetryingLock lock(mutex_);
  if (PerKeyEntry* before = arrivals_.Last(id)) {
    if (arrivals_.behind() >= max_waiting_) {
      return TooManyWaitForSequences(request, max_waiting_, info.name);
    }
    entry->calls_ = EntryOf(*before).calls_;
  }
  if (info.makes_calls && entry->calls_ == nullptr) {
    entry->calls_ = std::make_shared<CallGraph::Instances>(info.name);
    entry->calls_->Add(entry->calls_.get(), info.name + " (sequence " + std::to_string(id) + ")");
  }
  return &EntryOf(arrivals_.Enter(id, std::move(entry)));
}

void SequenceQueue::Ready(Entry& entry, std::unique_ptr<InferenceRequest> request) {
  // The request, and with it the owners of the queue, may end before this function returns.
  const std::shared_ptr<SequenceQueue> self = shared_from_this();
  Work work;
  {
    const RetryingAllocation retrying;
    request->queue_start_ns = SteadyNowNs();
    request->scheduling = {};
    TraceQueued(*request);
    if (request->cancellation != nullptr) {
      // The listener is cleared before the request leaves, so both pointers are valid whenever it is called.
      request->cancellation->SetListener([this, entered = request.get()] { OnCancelled(*entered); });
    }
    MutexLock lock(mutex_);
    if (entry.runner_->stopped_) {
      work.endings.push_back(Stopped(std::move(request)));
      if (Runnable next = arrivals_.Leave(entry); next.entry != nullptr)
        work.runnable.push_back(std::move(next));
    } else {
      InferenceRequest& entered = *request;
      Runnable runnable = arrivals_.Ready(entry, std::move(request));
      if (runnable.entry != nullptr) {
        work.runnable.push_back(std::move(runnable));
      } else if (entered.cancelled()) {
        work.endings.push_back(Cancelled(WithdrawCancelledLocked(entry)));
      } else if (Status status = EnterCallGraph(entry, entered); !status.ok()) {
        work.endings.push_back({WithdrawLocked(entry), FailureReason::kRejected, std::move(status), true});
      }
    }
  }
  Perform(std::move(work));
}

Status SequenceQueue::EnterCallGraph(const Entry& entry, InferenceRequest& request) const {
  // Without user code, the request before it makes no calls.
  if (entry.calls_ == nullptr || !CallGraph::Concerns(request.call_chain.get())) return OkStatus();
  BRAID_ASSIGN_OR_RETURN(request.scheduling.waiting_call, call_graph_.Wait(entry.calls_, request.call_chain));
  return OkStatus();
}

void SequenceQueue::GiveUp(Entry& entry, const InferenceRequest& request, const Status& why) {
  const std::shared_ptr<SequenceQueue> self = shared_from_this();
  const bool holds = EndsSequence(request) && why.code() == StatusCode::kCancelled;
  Work work;
  {
    RetryingLock lock(mutex_);
    if (holds) entry.servable_ = request.servable->Another();
    Runnable runnable = holds ? arrivals_.Abandon(entry) : arrivals_.Leave(entry);
    if (runnable.entry != nullptr) work.runnable.push_back(std::move(runnable));
  }
  Perform(std::move(work));
}

void SequenceQueue::Leave(Entry& entry) {
  const std::shared_ptr<SequenceQueue> self = shared_from_this();
  Work work;
  {
    RetryingLock lock(mutex_);
    if (Runnable next = arrivals_.Leave(entry); next.entry != nullptr)
      work.runnable.push_back(std::move(next));
  }
  // This thread must report the end of an execution, or serve other clients.
  for (Runnable& one : work.runnable) {
    if (one.request != nullptr) one.request->here = false;
  }
  Perform(std::move(work));
}

std::shared_ptr<const CallChain> SequenceQueue::ChainOf(const Entry& entry, const InferenceRequest& request) {
  if (entry.calls_ == nullptr) return request.call_chain;
  struct Link {
    CallChain chain;
    std::shared_ptr<CallGraph::Instances> calls;  // shared, so that its address is not reused for another
                                                  // sequence
  };
  auto link = std::make_shared<Link>();
  link->calls = entry.calls_;
  link->chain.model = NameOf(request);
  link->chain.instance = link->chain.model + " (sequence " + std::to_string(entry.id()) + ")";
  link->chain.blocked_instance = entry.calls_.get();
  if (request.call_chain != nullptr) link->chain.parents.push_back(request.call_chain);
  link->chain.passes_on = true;
  return {link, &link->chain};
}

// --- Cancellations and stops ---------------------------------------------------------------------

std::unique_ptr<InferenceRequest> SequenceQueue::WithdrawLocked(Entry& entry) {
  auto request = arrivals_.Withdraw(entry);
  arrivals_.Leave(entry);
  return request;
}

std::unique_ptr<InferenceRequest> SequenceQueue::WithdrawCancelledLocked(Entry& entry) {
  auto request = arrivals_.Withdraw(entry);
  if (EndsSequence(*request)) {
    entry.servable_ = request->servable->Another();
    arrivals_.Abandon(entry);
  } else {
    arrivals_.Leave(entry);
  }
  return request;
}

void SequenceQueue::OnCancelled(InferenceRequest& request) {
  RetryingLock lock(mutex_);
  // A request that does not wait yet is checked when it is about to, or when it runs.
  if (!request.scheduling.queued) return;
  cancelled_.push_back(WithdrawCancelledLocked(EntryOf(*request.scheduling.entry)));
  // This is called from within the Cancellation, so the request cannot end here.
  if (cancel_timer_) return;
  cancel_timer_ = timers_.At(timers_.NowNs(), [weak = weak_from_this()] {
    if (const std::shared_ptr<SequenceQueue> self = weak.lock()) self->EndCancelled();
  });
}

void SequenceQueue::EndCancelled() {
  Work work;
  {
    RetryingLock lock(mutex_);
    cancel_timer_ = {};
    for (auto& request : cancelled_) work.endings.push_back(Cancelled(std::move(request)));
    cancelled_.clear();
  }
  Perform(std::move(work));
}

void SequenceQueue::Stop(Runner& runner) {
  const std::shared_ptr<SequenceQueue> self = shared_from_this();
  Work work;
  {
    RetryingLock lock(mutex_);
    runner.stopped_ = true;
    for (PerKeyEntry* entry : arrivals_.Waiting()) {
      if (EntryOf(*entry).runner_ == &runner) {
        work.endings.push_back(Stopped(WithdrawLocked(EntryOf(*entry))));
      }
    }
    // Requests that were cancelled, also of other runners, need not wait for the timers' thread.
    for (auto& request : cancelled_) work.endings.push_back(Cancelled(std::move(request)));
    cancelled_.clear();
    timers_.Withdraw(std::exchange(cancel_timer_, {}));
  }
  Perform(std::move(work));
}

size_t SequenceQueue::waiting(const Runner& runner) const {
  MutexLock lock(mutex_);
  const auto waiting = arrivals_.Waiting();
  return static_cast<size_t>(std::count_if(waiting.begin(), waiting.end(), [&](PerKeyEntry* entry) {
    return EntryOf(*entry).runner_ == &runner;
  }));
}

// --- Carrying out decisions ----------------------------------------------------------------------

void SequenceQueue::Perform(Work work) {
  Trampoline<Runnable>::Run(this, std::move(work.runnable),
                            [this](Runnable runnable) { Begin(std::move(runnable)); });
  for (Ending& ending : work.endings) End(std::move(ending));
}

void SequenceQueue::Begin(Runnable runnable) {
  Entry& entry = EntryOf(*runnable.entry);
  if (runnable.request != nullptr) {
    if (runnable.request->cancellation != nullptr) runnable.request->cancellation->ClearListener();
    entry.runner_->BeginRun(std::move(runnable.request), entry);
    return;
  }
  const std::unique_ptr<ServableHandle> servable = std::move(entry.servable_);
  servable->get().DropSequence(entry.id());
  Leave(entry);
}

void SequenceQueue::End(Ending ending) const {
  InferenceRequest& request = *ending.request;
  if (request.cancellation != nullptr) request.cancellation->ClearListener();
  request.servable->get().statistics().RecordFailure(ending.reason, request.start_ns, SteadyNowNs());
  if (ending.refused) {
    request.Refuse(std::move(ending.status));
  } else {
    request.Fail(std::move(ending.status));
  }
}

SequenceQueue::Ending SequenceQueue::Cancelled(std::unique_ptr<InferenceRequest> request) {
  Status status = CancelledWhileWaiting(NameOf(*request));
  return {std::move(request), FailureReason::kCanceled, std::move(status)};
}

SequenceQueue::Ending SequenceQueue::Stopped(std::unique_ptr<InferenceRequest> request) {
  Status status = StoppedWhileWaiting(NameOf(*request));
  return {std::move(request), FailureReason::kOther, std::move(status)};
}

}  // namespace braid
