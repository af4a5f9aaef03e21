#include "graph/run_impl.h"

#include <utility>

#include "base/guard.h"

namespace braid::graph {

Run::Impl::Impl(std::shared_ptr<const Topology> topology, Options options,
                std::shared_ptr<RunObserver> observer)
    : topology_(std::move(topology)),
      parts_(topology_->parts()),
      executor_(std::move(options.executor)),
      services_(std::move(options.services)),
      counters_(std::move(options.counters)),
      given_side_packets_(std::move(options.side_packets)),
      side_packets_(parts_.side_packets.size()),
      nodes_(parts_.nodes.size()),
      packets_(static_cast<size_t>(parts_.input_count)),
      bounds_(static_cast<size_t>(parts_.input_count)),
      queues_(static_cast<size_t>(parts_.input_count)),
      streams_(parts_.streams.size()),
      observer_(std::move(observer)) {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const size_t first = static_cast<size_t>(parts_.nodes[i].first_input);
    const size_t count = parts_.nodes[i].inputs.size();
    nodes_[i].Init(*this, static_cast<int>(i), std::span(packets_).subspan(first, count),
                   std::span(bounds_).subspan(first, count));
  }
}

Status Run::Impl::AddPacket(int input, Packet packet) {
  const int number = parts_.input_streams.at(static_cast<size_t>(input));
  const TopologyStream& stream = parts_.streams[static_cast<size_t>(number)];
  const std::string where = "input stream '" + stream.name + "': ";
  if (packet.empty()) return InvalidArgumentError(where + "the packet has no value");
  if (!packet.timestamp().IsAllowedInStream()) {
    return InvalidArgumentError(
        where + "timestamp not specified or set to illegal value: " + packet.timestamp().DebugString());
  }
  if (stream.type && !(*stream.type == packet.type())) {
    return InvalidArgumentError(where + "the packet has type " + packet.type().name() + "; expected " +
                                stream.type->name());
  }
  MutexLock lock(mutex_);
  if (ended_ || failed_) return FailedPreconditionError(where + "the graph has ended");
  if (streams_[static_cast<size_t>(number)].bound == Timestamp::Done()) {
    return FailedPreconditionError(where + "the stream is closed");
  }
  {
    const RetryingAllocation retrying;
    if (Status status = CheckPacket(number, packet); !status.ok()) {
      Fail(std::move(status));
    } else {
      Send(number, std::move(packet));
    }
  }
  Drive();
  return OkStatus();
}

void Run::Impl::CloseInput(int input) {
  MutexLock lock(mutex_);
  if (ended_ || failed_) return;
  {
    const RetryingAllocation retrying;
    RaiseBound(parts_.input_streams.at(static_cast<size_t>(input)), Timestamp::Done());
    Settle();
  }
  Drive();
}

void Run::Impl::CloseAllInputs() {
  MutexLock lock(mutex_);
  if (ended_ || failed_) return;
  {
    const RetryingAllocation retrying;
    for (const int stream : parts_.input_streams) {
      RaiseBound(stream, Timestamp::Done());
      Settle();
    }
  }
  Drive();
}

void Run::Impl::Cancel(Status why) {
  MutexLock lock(mutex_);
  if (ended_ || failed_) return;
  cancelled_ = std::move(why);
  failed_ = true;
  {
    const RetryingAllocation retrying;
    if (started_) CloseAll();
  }
  Drive();
}

void Run::Impl::SetPaused(bool paused) {
  MutexLock lock(mutex_);
  paused_ = paused;
  if (!paused) Drive();
}

bool Run::Impl::wants_input() const {
  const MutexLock lock(mutex_);
  return wants();
}

Status Run::Impl::FinalStatus() const {
  if (!cancelled_.ok()) return cancelled_;
  if (errors_.empty()) return OkStatus();
  std::string message = "CalculatorGraph::Run() failed: ";
  StatusCode code = errors_.front().code();
  for (const Status& error : errors_) {
    message += "\n" + error.message();
    if (error.code() != code) code = StatusCode::kUnknown;
  }
  return {code, std::move(message)};
}

std::shared_ptr<Run> Run::Create(std::shared_ptr<const Topology> topology, Options options,
                                 std::shared_ptr<RunObserver> observer) {
  return std::shared_ptr<Run>(
      new Run(std::make_shared<Impl>(std::move(topology), std::move(options), std::move(observer))));
}

Run::Run(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Run::~Run() {
  const RetryingAllocation retrying;
  Cancel(CancelledError("The run of the graph was abandoned."));
}

// The run's observer may make these calls and release the run meanwhile. Each call keeps the run's state
// alive until it returns.
Status Run::Start() {
  const std::shared_ptr<Impl> impl = impl_;
  return impl->Start();
}

Status Run::AddPacket(int input, Packet packet) {
  const std::shared_ptr<Impl> impl = impl_;
  return impl->AddPacket(input, std::move(packet));
}

void Run::CloseInput(int input) {
  const std::shared_ptr<Impl> impl = impl_;
  impl->CloseInput(input);
}

void Run::CloseAllInputs() {
  const std::shared_ptr<Impl> impl = impl_;
  impl->CloseAllInputs();
}

void Run::Cancel(Status why) {
  const std::shared_ptr<Impl> impl = impl_;
  impl->Cancel(std::move(why));
}

void Run::SetPaused(bool paused) {
  const std::shared_ptr<Impl> impl = impl_;
  impl->SetPaused(paused);
}

bool Run::wants_input() const { return impl_->wants_input(); }

}  // namespace braid::graph
