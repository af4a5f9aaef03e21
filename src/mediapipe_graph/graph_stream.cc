#include "mediapipe_graph/graph_stream.h"

#include <algorithm>

#include "base/clock.h"
#include "base/guard.h"
#include "mediapipe_graph/graph_sequences.h"
#include "serving/faults.h"

namespace braid {
namespace {

GraphCall CallOf(const GraphHost& host, const InferenceRequest& first) {
  GraphCall call;
  call.graph = host.definition.name;
  call.id = first.id;
  call.priority = first.priority;
  call.chain = first.call_chain;
  call.trace = first.trace;
  call.sequences = std::make_shared<GraphSequences>(host.servables);
  return call;
}

}  // namespace

Result<std::shared_ptr<ServableStream>> GraphStream::Open(std::shared_ptr<GraphHost> host,
                                                          InferenceRequest& first, StreamSink& sink) {
  BRAID_ASSIGN_OR_RETURN(SidePackets side_packets, ClientSidePackets(host->definition, first.parameters,
                                                                     host->servables->has_sequences()));
  auto run = std::make_shared<GraphStream>(host, CallOf(*host, first), first, sink);
  BRAID_RETURN_IF_ERROR(run->Start(std::move(side_packets), first.parameters));
  GraphStream* const stream = run.get();
  const RetryingAllocation retrying;  // a failure here would cancel the stream
  return std::shared_ptr<ServableStream>(
      stream, [run = std::move(run)](ServableStream*) mutable { std::exchange(run, nullptr)->Cancel(); });
}

GraphStream::GraphStream(std::shared_ptr<GraphHost> host, GraphCall call, InferenceRequest& first,
                         StreamSink& sink)
    : GraphRun(std::move(host), std::move(call), first.servable->get(), ApiMethod::kModelInferStream),
      start_ns_(SteadyNowNs()),
      deliveries_(sink),
      handle_(std::move(first.servable)) {}

Status GraphStream::Start(SidePackets side_packets, Parameters parameters) {
  Begin(std::move(side_packets), std::move(parameters));
  MutexLock lock(mutex_);
  opening_ = false;
  return refused_;
}

std::shared_ptr<GraphRun> GraphStream::Listen() {
  std::shared_ptr<GraphRun> self = shared_from_this();
  deliveries_.Release();
  return self;
}

Status GraphStream::Push(InferenceRequest& message) {
  const auto self = Listen();
  {
    MutexLock lock(mutex_);
    if (over_) return OkStatus();
  }
  return TakeInputs(message);
}

// The inputs before a faulty one have entered the graph, as clients of streams expect.
Status GraphStream::TakeInputs(InferenceRequest& message) {
  const GraphDefinition& graph = host().definition;
  BRAID_ASSIGN_OR_RETURN(const graph::Timestamp at, NextTimestamp(message));
  BRAID_RETURN_IF_ERROR(call().sequences->Add(at, message));
  if (graph.passes_messages()) {
    BRAID_ASSIGN_OR_RETURN(graph::Packet packet, MessagePacket(message, at));
    return AddInput(0, std::move(packet));
  }
  for (Tensor& tensor : message.inputs) {
    int input = -1;
    BRAID_ASSIGN_OR_RETURN(graph::Packet packet, InputPacket(graph, std::move(tensor), at, input));
    BRAID_RETURN_IF_ERROR(AddInput(input, std::move(packet)));
  }
  return OkStatus();
}

Result<graph::Timestamp> GraphStream::NextTimestamp(const InferenceRequest& message) {
  BRAID_ASSIGN_OR_RETURN(const auto manual, ManualTimestamp(message.parameters));
  MutexLock lock(mutex_);
  const graph::Timestamp at = manual.value_or(next_);
  BRAID_RETURN_IF_ERROR(CheckTimestamp(at));
  next_ = at.NextAllowedInStream();
  ids_.Add(at.value(), message.id);
  return at;
}

Status GraphStream::AddInput(int input, graph::Packet packet) {
  {
    MutexLock lock(mutex_);
    if (!fed_) {
      if (!over_) waiting_.emplace_back(input, std::move(packet));
      return OkStatus();
    }
  }
  const auto running = run();
  if (running == nullptr) return OkStatus();
  const Status status = running->AddPacket(input, std::move(packet));
  // If the run has ended meanwhile, the stream's end has the reason.
  if (status.ok() || status.code() == StatusCode::kFailedPrecondition) return OkStatus();
  return FaultError(Fault::kGraphAddPacketError, status.message());
}

void GraphStream::OnBegun(graph::Run& run) {
  bool waited = false;
  ApplyPause(run);
  for (;;) {
    std::vector<Input> inputs;
    bool closed = false;
    {
      MutexLock lock(mutex_);
      inputs.swap(waiting_);
      closed = closed_;
      fed_ = inputs.empty();
    }
    if (inputs.empty()) {
      if (closed) run.CloseAllInputs();
      break;
    }
    waited = true;
    for (auto& [input, packet] : inputs) {
      const Status status = run.AddPacket(input, std::move(packet));
      if (status.ok() || status.code() == StatusCode::kFailedPrecondition) continue;
      Stop(FaultError(Fault::kGraphAddPacketError, status.message()));
    }
  }
  if (waited && run.wants_input()) deliveries_.WantsInput();
}

void GraphStream::CloseInputs() {
  const auto self = Listen();
  {
    MutexLock lock(mutex_);
    closed_ = true;
    if (!fed_) return;
  }
  if (const auto running = run()) running->CloseAllInputs();
}

void GraphStream::Cancel() {
  const RetryingAllocation retrying;
  const auto self = Listen();
  Stop(CancelledError("the stream was cancelled"));
}

void GraphStream::SetPaused(bool paused) {
  const auto self = Listen();
  {
    MutexLock lock(mutex_);
    paused_ = paused;
  }
  if (const auto running = run()) ApplyPause(*running);
}

// The last caller leaves the run in the state of paused_.
void GraphStream::ApplyPause(graph::Run& run) {
  const auto wanted = [this] {
    MutexLock lock(mutex_);
    return paused_;
  };
  for (bool paused = wanted();;) {
    run.SetPaused(paused);
    const bool now = wanted();
    if (now == paused) return;
    paused = now;
  }
}

bool GraphStream::wants_input() const {
  {
    MutexLock lock(mutex_);
    if (over_) return true;
    if (!fed_) return waiting_.empty();
  }
  const auto running = run();
  return running == nullptr || running->wants_input();
}

void GraphStream::OnPacket(int output, graph::Packet packet) {
  const auto self = shared_from_this();
  const GraphDefinition& graph = host().definition;
  InferenceResponse response;
  if (Status status = AddOutput(graph, output, packet, response); !status.ok()) {
    Stop(std::move(status));
    return;
  }
  const int64_t at = packet.timestamp().value();
  response.parameters.emplace_back(kTimestampParameter, at);
  TellSequence(call().sequences->Find(packet.timestamp()).get(), response);
  call().sequences->Responded(packet.timestamp());
  response.model_name = graph.name;
  response.model_version = 1;
  std::string id;
  {
    MutexLock lock(mutex_);
    id = ids_.Find(at);
    // After a node has answered one message by many packets, it takes the next only at a later time.
    if (packet.timestamp().IsRangeValue()) {
      next_ = std::max(next_, packet.timestamp().NextAllowedInStream());
    }
  }
  host().structure.Responded();
  deliveries_.Respond(std::move(response), std::move(id));
}

void GraphStream::OnWantsInput() {
  const auto self = shared_from_this();
  deliveries_.WantsInput();
}

void GraphStream::OnOver(Status status) {
  const RetryingAllocation retrying;
  ModelStatistics& statistics = servable().statistics();
  const int64_t now_ns = SteadyNowNs();
  if (status.ok()) {
    const ExecutionTimes times{begun_ns(), begun_ns(), now_ns, now_ns};
    statistics.RecordExecution(1, times);
    statistics.RecordSuccess(1, start_ns_, start_ns_, times);
  } else {
    call().sequences->TakeBack();
    const bool cancelled = status.code() == StatusCode::kCancelled;
    statistics.RecordFailure(cancelled ? FailureReason::kCanceled : FailureReason::kBackend, start_ns_,
                             now_ns);
  }
  {
    MutexLock lock(mutex_);
    over_ = true;
    waiting_.clear();
    if (opening_ && !status.ok()) {
      refused_ = std::move(status);
      return;
    }
  }
  // A client that has not called anything yet is also told of a fault.
  const bool failed = !status.ok();
  // Releases the handle before the client is notified, so that a client which then unloads the graph need not
  // wait.
  deliveries_.End(std::move(status), [this] {
    std::unique_ptr<ServableHandle> leaving;
    MutexLock lock(mutex_);
    leaving = std::move(handle_);
  });
  if (failed) deliveries_.Release();
}

}  // namespace braid
