#include "mediapipe_graph/graph_run.h"

#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/guard.h"

namespace braid {

GraphHost::GraphHost(GraphDefinition graph, std::shared_ptr<PythonNodes> nodes,
                     graph::Packet python_resources, std::shared_ptr<const GraphServables> asked,
                     Executor run_on, Timers& clock)
    : definition(std::move(graph)),
      python(std::move(nodes)),
      executor(std::move(run_on)),
      servables(std::move(asked)),
      timers(clock),
      slots(definition.queue_size, executor),
      structure(*definition.topology),
      services_{{std::string(kGraphServablesService), graph::Packet::Of(servables)}},
      python_resources_(std::move(python_resources)) {}

graph::Run::Options GraphHost::RunOptions(const GraphCall& call, SidePackets side_packets,
                                          uint64_t session) const {
  graph::Run::Options options;
  options.executor = executor;
  options.counters = structure.counters();
  options.services = services_;
  options.services.emplace(kGraphCallService, graph::Packet::Of(call));
  options.side_packets = std::move(side_packets);
  if (python != nullptr) {
    options.services.emplace(kPythonSessionService, graph::Packet::Of(session));
    options.side_packets.emplace(kPythonSidePacket, python_resources_);
  }
  return options;
}

void GraphHost::Add(const std::shared_ptr<GraphRun>& run) {
  MutexLock lock(mutex_);
  runs_.emplace(run.get(), run);
}

void GraphHost::Remove(const GraphRun& run) {
  MutexLock lock(mutex_);
  runs_.erase(&run);
}

void GraphHost::StopAll(const Status& why) {
  std::vector<std::shared_ptr<GraphRun>> all;
  {
    MutexLock lock(mutex_);
    for (const auto& [key, run] : runs_) {
      if (auto alive = run.lock()) all.push_back(std::move(alive));
    }
  }
  for (const auto& run : all) run->Stop(why);
}

size_t GraphHost::runs() const {
  MutexLock lock(mutex_);
  return runs_.size();
}

void GraphRun::Begin(SidePackets side_packets, Parameters parameters) {
  side_packets_ = std::move(side_packets);
  parameters_ = std::move(parameters);
  entered_ns_ = SteadyNowNs();
  bool slot = false;
  {
    const RetryingAllocation retrying;
    host_->structure.RequestBegan();
    host_->Add(shared_from_this());
    slot = host_->slots.Take(shared_from_this());
  }
  if (slot) {
    OnSlot();
    return;
  }
  // A Stop() before Take() found no waiter to withdraw.
  Status why;
  {
    MutexLock lock(mutex_);
    why = stop_;
  }
  if (!why.ok() && host_->slots.Withdraw(*this)) Over(std::move(why), false);
}

void GraphRun::OnSlot() {
  begun_ns_ = SteadyNowNs();
  servable_.api_counters().GraphBegan();
  Status why;
  {
    MutexLock lock(mutex_);
    why = stop_;
  }
  if (!why.ok()) {
    Over(std::move(why), true);
    return;
  }
  std::shared_ptr<graph::Run> run;
  // The slot would be lost if an exception kept it.
  if (Status status = Guarded([&] { return StartRun(run); }); !status.ok()) {
    Over(std::move(status), true);
    return;
  }
  {
    MutexLock lock(mutex_);
    if (!over_) run_ = run;
    why = stop_;
  }
  if (!why.ok()) run->Cancel(std::move(why));
  if (Status status = Guarded([&] { OnBegun(*run); }); !status.ok()) Stop(std::move(status));
}

Status GraphRun::StartRun(std::shared_ptr<graph::Run>& run) {
  if (host_->python != nullptr) {
    session_ = host_->python->BeginSession(parameters_, call_.chain);
    in_session_ = true;
  }
  run = graph::Run::Create(host_->definition.topology,
                           host_->RunOptions(call_, std::move(side_packets_), session_), shared_from_this());
  const Status status = run->Start();
  return status.ok() ? status : StartFault(status);
}

void GraphRun::Stop(Status why) {
  const RetryingAllocation retrying;
  std::shared_ptr<graph::Run> running;
  {
    MutexLock lock(mutex_);
    if (over_) return;
    if (stop_.ok()) stop_ = why;
    running = run_;
  }
  if (running != nullptr) {
    running->Cancel(std::move(why));
  } else if (host_->slots.Withdraw(*this)) {
    Over(std::move(why), false);
  }
  // Otherwise a thread is opening the graph; it checks stop_.
}

void GraphRun::OnEnd(Status status) {
  {
    const RetryingAllocation retrying;  // this is the only end
    Status why;
    {
      MutexLock lock(mutex_);
      why = stop_;
    }
    if (!status.ok()) status = why.ok() ? RunFault(status) : std::move(why);
  }
  Over(std::move(status), true);
}

void GraphRun::Over(Status status, bool had_slot) {
  const auto self = shared_from_this();
  std::shared_ptr<graph::Run> ended;
  {
    MutexLock lock(mutex_);
    if (std::exchange(over_, true)) return;
    ended = std::move(run_);
  }
  {
    const RetryingAllocation retrying;
    if (in_session_) host_->python->EndSession(session_);
    host_->Remove(*this);
    CountEnd(status, had_slot);
    if (had_slot) host_->slots.Give();
  }
  OnOver(std::move(status));
}

// A run that was stopped from outside is not a failure of the graph.
void GraphRun::CountEnd(const Status& status, bool had_slot) {
  bool stopped = false;
  {
    MutexLock lock(mutex_);
    stopped = !stop_.ok();
  }
  const int64_t now_ns = SteadyNowNs();
  host_->structure.RequestEnded(!status.ok() && status.code() != StatusCode::kCancelled,
                                now_ns - entered_ns_);
  if (!had_slot) return;
  servable_.api_counters().GraphEnded(status.ok() || stopped);
  servable_.statistics().RecordGraphRun(method_, now_ns - begun_ns_);
}

std::shared_ptr<graph::Run> GraphRun::run() const {
  MutexLock lock(mutex_);
  return run_;
}

}  // namespace braid
