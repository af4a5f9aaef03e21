#include "mediapipe_graph/graph_stream.h"

#include <utility>

#include "mediapipe_graph/graph_sequences.h"
#include "mediapipe_graph/graph_stream_run.h"

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
  auto run = std::make_shared<GraphStreamRun>(host, CallOf(*host, first), first, sink);
  BRAID_RETURN_IF_ERROR(run->Open(std::move(side_packets), first.parameters));
  return std::shared_ptr<ServableStream>(std::make_shared<GraphStream>(std::move(run)));
}

GraphStream::~GraphStream() { Cancel(); }

// The sink may let go of this stream while it hears of something within one of these calls, hence the copies.

Status GraphStream::Push(InferenceRequest& message) {
  const auto run = run_;
  run->Release();
  return run->Push(message);
}

void GraphStream::CloseInputs() {
  const auto run = run_;
  run->Release();
  run->CloseInputs();
}

void GraphStream::Cancel() {
  const auto run = run_;
  run->Release();
  run->Stop(CancelledError("the stream was cancelled"));
}

void GraphStream::SetPaused(bool paused) {
  const auto run = run_;
  run->Release();
  run->SetPaused(paused);
}

bool GraphStream::wants_input() const { return run_->wants_input(); }

}  // namespace braid
