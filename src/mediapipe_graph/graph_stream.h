// GraphStream: a client's stream to a graph, which is one run of the graph. The inputs of each message enter
// the graph at its own time: the client's choice, or the previous message's time plus one, 0 for the first.
// Each output packet is a response.
//
// A response has the id of the last message whose time is not later than that of its packet. Each message may
// name a sequence; responses with the message's id also have the sequence's id.
//
// The run outlives the stream if the client leaves first: the last copy of the client's pointer cancels the
// run.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "graph/packet.h"
#include "mediapipe_graph/graph_run.h"
#include "mediapipe_graph/message_ids.h"
#include "mediapipe_graph/stream_deliveries.h"
#include "serving/request.h"
#include "serving/servable.h"
#include "serving/servable_stream.h"

namespace braid {

class GraphStream final : public GraphRun, public ServableStream {
 public:
  // See Servable::OpenStream(). `first` is the stream's first message; the stream takes over its handle. If
  // the graph has no free slot, the stream opens and waits for one.
  static Result<std::shared_ptr<ServableStream>> Open(std::shared_ptr<GraphHost> host,
                                                      InferenceRequest& first, StreamSink& sink);

  // For Open() alone.
  GraphStream(std::shared_ptr<GraphHost> host, GraphCall call, InferenceRequest& first, StreamSink& sink);

  Status Push(InferenceRequest& message) override;
  void CloseInputs() override;
  void Cancel() override;
  void SetPaused(bool paused) override;
  bool wants_input() const override;

 private:
  using Input = std::pair<int, graph::Packet>;

  // Begins; returns the error if it cannot begin and that is known at once.
  Status Start(SidePackets side_packets, Parameters parameters);
  // The client is listening: the sink may be called from now on. It may release this stream within the
  // caller's call, so the caller keeps the result.
  [[nodiscard]] std::shared_ptr<GraphRun> Listen();

  Status TakeInputs(InferenceRequest& message);
  Result<graph::Timestamp> NextTimestamp(const InferenceRequest& message);
  Status AddInput(int input, graph::Packet packet);
  void ApplyPause(graph::Run& run);

  void OnBegun(graph::Run& run) override;
  void OnPacket(int output, graph::Packet packet) override;
  void OnWantsInput() override;
  void OnOver(Status status) override;

  const int64_t start_ns_;
  StreamDeliveries deliveries_;

  mutable Mutex mutex_;
  std::unique_ptr<ServableHandle> handle_ BRAID_GUARDED_BY(mutex_);  // until the end is delivered
  bool opening_ BRAID_GUARDED_BY(mutex_) = true;
  Status refused_ BRAID_GUARDED_BY(mutex_);            // the error if it ended during Open()
  graph::Timestamp next_ BRAID_GUARDED_BY(mutex_){0};  // of the next message without a time
  MessageIds ids_ BRAID_GUARDED_BY(mutex_);
  std::vector<Input> waiting_ BRAID_GUARDED_BY(mutex_);  // inputs from before the run took any, in order
  bool fed_ BRAID_GUARDED_BY(mutex_) = false;            // inputs go to the run
  bool closed_ BRAID_GUARDED_BY(mutex_) = false;
  bool paused_ BRAID_GUARDED_BY(mutex_) = false;
  bool over_ BRAID_GUARDED_BY(mutex_) = false;
};

}  // namespace braid
