// GraphStream: a client's stream to a graph is one run of the graph. Each message's inputs go in at a time of
// their own (what the client says, or the message before plus one, 0 for the first); each packet that comes
// out is a response.
//
// Each message names a sequence of its own, or none, and those responses that carry its id tell it too.
//
// A response carries the id of the last message whose time is not later than that of its packet.
//
// The run outlives the stream when the client goes first: when the last copy of the client's share goes, it
// cancels the run.
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
  // See Servable::OpenStream(). `first` is the stream's first message; its handle is taken over. When the
  // graph's slots are taken the stream is open and waits for one.
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

  // Begins, and says why it cannot, if that is known at once.
  Status Start(SidePackets side_packets, Parameters parameters);
  // The client is listening: the sink may be called, and may let go of this stream within the caller's call,
  // which keeps what is returned.
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
  Status refused_ BRAID_GUARDED_BY(mutex_);            // what it ended with while it was opened
  graph::Timestamp next_ BRAID_GUARDED_BY(mutex_){0};  // of the next message that gives none
  MessageIds ids_ BRAID_GUARDED_BY(mutex_);
  std::vector<Input> waiting_ BRAID_GUARDED_BY(mutex_);  // what came before the run took inputs, in order
  bool fed_ BRAID_GUARDED_BY(mutex_) = false;            // inputs go to the run
  bool closed_ BRAID_GUARDED_BY(mutex_) = false;
  bool paused_ BRAID_GUARDED_BY(mutex_) = false;
  bool over_ BRAID_GUARDED_BY(mutex_) = false;
};

}  // namespace braid
