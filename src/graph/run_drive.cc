// The choice of the next call, and the effects of a call that has ended.
#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "base/clock.h"
#include "base/guard.h"
#include "graph/run_impl.h"

namespace braid::graph {
namespace {

// While one exists, this thread drives a run; the innermost is the first of a list.
class Driving;
thread_local const Driving* driving = nullptr;

class Driving {
 public:
  explicit Driving(const void* run) : run_(run), outer_(std::exchange(driving, this)) {}
  ~Driving() { driving = outer_; }
  Driving(const Driving&) = delete;
  Driving& operator=(const Driving&) = delete;

  static bool Drives(const void* run) {
    for (const Driving* at = driving; at != nullptr; at = at->outer_) {
      if (at->run_ == run) return true;
    }
    return false;
  }

 private:
  const void* run_;
  const Driving* outer_;
};

// Calls a calculator, which may throw anything.
template <class Call>
Status CallGuarded(Call call) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return HandledExceptionStatus();
  } catch (const std::exception& error) {
    const RetryingAllocation retrying;
    return InternalError(std::string("An exception was thrown: ") + error.what());
  } catch (...) {
    const RetryingAllocation retrying;
    return InternalError("An unknown exception was thrown.");
  }
}

}  // namespace

Status NodeError(const NodeState& node, std::string_view call, const Status& status) {
  return status.WithPrefix(std::string("Calculator::")
                               .append(call)
                               .append("() for node \"")
                               .append(node.contract().node_name())
                               .append("\" failed: "));
}

Status CallOpen(NodeState& node) {
  return CallGuarded([&node] { return node.calculator->Open(node); });
}
Status CallProcess(NodeState& node) {
  return CallGuarded([&node] { return node.calculator->Process(node); });
}
Status CallClose(NodeState& node) {
  return CallGuarded([&node] { return node.calculator->Close(node); });
}

void Run::Impl::Drive() {
  if (!started_ || Driving::Drives(this)) return;
  const Driving mark(this);
  while (Step()) {
  }
}

// Takes one possible action; returns false if there is none.
bool Run::Impl::Step() {
  if (!garbage_.empty()) {
    // Destructors of packets' values may do anything, such as call the run.
    Garbage garbage = std::exchange(garbage_, Garbage());
    const MutexUnlock unlock(mutex_);
    garbage = Garbage();
    return true;
  }
  if (!cancels_.empty()) {
    CallCancel();
    return true;
  }
  if (!events_.empty() && !delivery_.taken()) {
    DeliverEvents();
    return true;
  }
  if (NodeState* node = PickReady()) {
    Begin(*node);
    return true;
  }
  const RetryingAllocation retrying;
  return EndIfOver() || CloseWhatIsLeft() || NoteWants();
}

void Run::Impl::Deliver(Event& event, RunObserver& observer) {
  switch (event.kind) {
    case Event::Kind::kPacket:
      observer.OnPacket(event.output, std::move(event.packet));
      break;
    case Event::Kind::kWantsInput:
      observer.OnWantsInput();
      break;
    case Event::Kind::kEnd:
      observer.OnEnd(std::move(event.status));
      break;
  }
}

void Run::Impl::DeliverEvents() {
  std::swap(events_, delivered_);
  const std::shared_ptr<RunObserver> observer =
      delivered_.back().kind == Event::Kind::kEnd ? std::move(observer_) : observer_;
  Status taken;
  {
    const SerialDelivery::Turn turn(delivery_);
    const MutexUnlock unlock(mutex_);
    for (Event& event : delivered_) {
      const Status status = Guarded([&] { Deliver(event, *observer); });
      if (taken.ok()) taken = status;
    }
    delivered_.clear();
  }
  if (taken.ok()) return;
  if (ended_) return ReportFault("the end of a graph's run", taken);
  const RetryingAllocation retrying;
  Fail(std::move(taken));
}

void Run::Impl::CallCancel() {
  NodeState& node = nodes_[static_cast<size_t>(cancels_.back())];
  cancels_.pop_back();
  if (node.phase != NodeState::Phase::kRunning || !node.returned || !node.deferred || node.finished ||
      node.cancelled) {
    return;
  }
  node.cancelled = true;
  node.cancelling = true;
  {
    const MutexUnlock unlock(mutex_);
    node.calculator->Cancel();
  }
  node.cancelling = false;
  if (node.finished) EndCall(node, std::move(node.finish_status));
}

// Prefers nodes near the outputs, so that few packets wait in between; nodes without inputs come last.
NodeState* Run::Impl::PickReady() {
  if (paused_ && !failed_) return nullptr;
  if (!ready_.empty()) {
    std::ranges::pop_heap(ready_);
    const int number = parts_.order[static_cast<size_t>(ready_.back())];
    ready_.pop_back();
    return &nodes_[static_cast<size_t>(number)];
  }
  if (ready_sources_.empty() || (full_ > 0 && running_ > 0)) return nullptr;
  for (auto at = ready_sources_.begin(); at != ready_sources_.end(); ++at) {
    NodeState& source = nodes_[static_cast<size_t>(*at)];
    if (!MayRun(source)) continue;
    ready_sources_.erase(at);
    return &source;
  }
  return nullptr;
}

// The nodes of a layer run when all nodes of lower layers are closed.
bool Run::Impl::MayRun(const NodeState& source) const {
  const int layer = source.contract().config().source_layer();
  return std::ranges::none_of(nodes_, [layer](const NodeState& other) {
    return other.node->source() && other.phase != NodeState::Phase::kClosed &&
           other.contract().config().source_layer() < layer;
  });
}

void Run::Impl::MakeReady(NodeState& node, bool closing) {
  node.phase = NodeState::Phase::kReady;
  node.closing = closing;
  if (node.node->source() && !closing) {
    node.at = Timestamp::Unset();
    ready_sources_.push_back(node.number);
    return;
  }
  ready_.push_back(node.node->rank);
  std::ranges::push_heap(ready_);
}

void Run::Impl::Begin(NodeState& node) {
  node.phase = NodeState::Phase::kRunning;
  node.returned = false;
  node.finished = false;
  node.cancelled = false;
  node.deferred = false;
  node.erred = false;
  ++running_;
  if (!node.closing) CountStart(node);
  if (node.node->contract.quick() || !executor_) {
    CallNode(node);
    return;
  }
  const RetryingAllocation retrying;
  const MutexUnlock unlock(mutex_);
  executor_([self = shared_from_this(), &node] {
    const MutexLock lock(self->mutex_);
    self->CallNode(node);
    self->Drive();
  });
}

void Run::Impl::CallNode(NodeState& node) {
  const bool closing = node.closing;
  Status status;
  {
    const MutexUnlock unlock(mutex_);
    if (closing) node.at = Timestamp::Done();
    status = closing ? CallClose(node) : CallProcess(node);
    if (!node.deferred) node.DropPackets();
  }
  node.returned = true;
  if (!node.deferred) {
    EndCall(node, std::move(status));
  } else if (node.finished) {
    EndCall(node, status.ok() ? std::move(node.finish_status) : std::move(status));
  } else {
    const RetryingAllocation retrying;
    node.erred = !status.ok();
    if (!status.ok()) Fail(NodeError(node, "Process", status));
    if (failed_) cancels_.push_back(node.number);
  }
}

void Run::Impl::FinishNode(NodeState& node, Status status) {
  MutexLock lock(mutex_);
  node.finished = true;
  node.finish_status = std::move(status);
  if (node.returned && !node.cancelling) {
    EndCall(node, std::move(node.finish_status));
    Drive();
  }
}

void Run::Impl::EndCall(NodeState& node, Status status) {
  const RetryingAllocation retrying;
  const bool closing = node.closing;
  const bool stop = !closing && IsStop(status);
  if (stop) status = OkStatus();
  for (NodeState::Given& given : node.given) {
    if (!status.ok() || failed_) break;
    status = Give(node, given);
  }
  if (!closing) {
    CountEnd(node, node.erred || (!status.ok() && !node.cancelled));
  } else if (!status.ok()) {
    CountFailure(node);
  }
  if (!status.ok()) Fail(NodeError(node, closing ? "Close" : "Process", status));
  for (NodeState::Given& given : node.given) {
    if (!given.packet.empty()) garbage_.given.push_back(std::move(given));
  }
  node.given.clear();
  --running_;
  if (closing) {
    EndClose(node);
    return;
  }
  if (!failed_ && node.node->contract.timestamp_offset() && node.at.IsRangeValue()) {
    PassBounds(node, node.at.NextAllowedInStream());
  }
  if (failed_ || stop) {
    MakeReady(node, true);
    if (stop && !node.node->source()) StopInputs();
    return;
  }
  node.phase = NodeState::Phase::kIdle;
  MarkDirty(node.number);
  Settle();
}

void Run::Impl::EndClose(NodeState& node) {
  node.phase = NodeState::Phase::kClosed;
  node.Discard();
  if (!failed_) {
    for (const int stream : node.node->outputs) {
      RaiseBound(stream, Timestamp::Done());
      Settle();
    }
  }
  --open_nodes_;
}

bool Run::Impl::InputsClosed() const {
  return std::ranges::all_of(parts_.input_streams, [this](int stream) {
    mutex_.AssertHeld();  // called at once
    return streams_[static_cast<size_t>(stream)].bound == Timestamp::Done();
  });
}

// All nodes may be closed before the inputs are. Packets that still come are dropped, without an error for
// the sender.
bool Run::Impl::EndIfOver() {
  if (ended_ || open_nodes_ > 0 || !(failed_ || InputsClosed())) return false;
  ended_ = true;
  events_.push_back({Event::Kind::kEnd, 0, Packet(), FinalStatus()});
  return true;
}

// A node with inputs has ended the run early.
void Run::Impl::StopInputs() {
  stopping_ = true;
  for (const int number : std::exchange(ready_sources_, {})) {
    MakeReady(nodes_[static_cast<size_t>(number)], true);
  }
  for (const int stream : parts_.input_streams) RaiseBound(stream, Timestamp::Done());
  Settle();
}

// Nothing runs, and no packet can come from outside: the rest waits for a loop that has ended by itself.
// Closes those nodes; their packets are dropped.
bool Run::Impl::CloseWhatIsLeft() {
  if (failed_ || ended_ || !idle() || !InputsClosed()) return false;
  bool any = false;
  for (NodeState& node : nodes_) {
    if (node.phase != NodeState::Phase::kIdle) continue;
    MakeReady(node, true);
    any = true;
  }
  return any;
}

void Run::Impl::Fail(Status error) {
  errors_.push_back(std::move(error));
  if (failed_) return;
  failed_ = true;
  if (started_) CloseAll();
}

void Run::Impl::CountStart(NodeState& node) {
  if (counters_ == nullptr) return;
  node.start_ns = SteadyNowNs();
  counters_->Started(static_cast<size_t>(node.number));
}

void Run::Impl::CountEnd(NodeState& node, bool failed) {
  if (counters_ == nullptr) return;
  counters_->Ended(static_cast<size_t>(node.number), failed, SteadyNowNs() - node.start_ns);
}

void Run::Impl::CountFailure(const NodeState& node) {
  if (counters_ == nullptr) return;
  counters_->Started(static_cast<size_t>(node.number));
  counters_->Ended(static_cast<size_t>(node.number), true, 0);
}

void Run::Impl::CloseAll() {
  ready_.clear();
  ready_sources_.clear();
  for (NodeState& node : nodes_) {
    switch (node.phase) {
      case NodeState::Phase::kIdle:
      case NodeState::Phase::kReady:
        node.Discard();
        MakeReady(node, true);
        break;
      case NodeState::Phase::kRunning:
        if (node.returned) cancels_.push_back(node.number);
        break;
      case NodeState::Phase::kNew:
      case NodeState::Phase::kClosed:
        break;
    }
  }
}

bool Run::Impl::NoteWants() {
  const bool now = wants();
  const bool again = now && !wanted_ && !ended_;
  wanted_ = now;
  if (again) events_.push_back({Event::Kind::kWantsInput, 0, Packet(), OkStatus()});
  return again;
}

}  // namespace braid::graph
