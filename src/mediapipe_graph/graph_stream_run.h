// GraphStreamRun: the run behind a GraphStream, which it outlives when the client goes first.
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

namespace braid {

class GraphStreamRun final : public GraphRun {
 public:
  // `first` is the stream's first message; its handle is taken over.
  GraphStreamRun(std::shared_ptr<GraphHost> host, GraphCall call, InferenceRequest& first, StreamSink& sink);

  // Begins, and says why it cannot, if that is known at once. Called once, first.
  Status Open(SidePackets side_packets, Parameters parameters);

  // See ServableStream. The caller keeps this alive through the call.
  Status Push(InferenceRequest& message);
  void CloseInputs();
  void SetPaused(bool paused);
  bool wants_input() const;
  // The client is listening: the sink may be called.
  void Release() { deliveries_.Release(); }

 private:
  using Input = std::pair<int, graph::Packet>;

  Status CheckName(const InferenceRequest& message) const;
  Status TakeInputs(InferenceRequest& message);
  Result<graph::Timestamp> NextTimestamp(const InferenceRequest& message);
  Status AddInput(int input, graph::Packet packet);
  void ApplyPause(graph::Run& run);

  void OnBegun(graph::Run& run) override;
  void OnPacket(int output, graph::Packet packet) override;
  void OnWantsInput() override;
  void OnOver(Status status) override;

  const std::string model_name_;  // as the first message has it
  const int64_t start_ns_;
  StreamDeliveries deliveries_;

  mutable Mutex mutex_;
  std::unique_ptr<ServableHandle> handle_ BRAID_GUARDED_BY(mutex_);  // until the end is delivered
  bool opening_ BRAID_GUARDED_BY(mutex_) = true;
  Status refused_ BRAID_GUARDED_BY(mutex_);            // what it ended with while it was opened
  bool first_ BRAID_GUARDED_BY(mutex_) = true;         // no message has come yet
  graph::Timestamp next_ BRAID_GUARDED_BY(mutex_){0};  // of the next message that gives none
  MessageIds ids_ BRAID_GUARDED_BY(mutex_);
  std::vector<Input> waiting_ BRAID_GUARDED_BY(mutex_);  // what came before the run took inputs, in order
  bool fed_ BRAID_GUARDED_BY(mutex_) = false;            // inputs go to the run
  bool closed_ BRAID_GUARDED_BY(mutex_) = false;
  bool paused_ BRAID_GUARDED_BY(mutex_) = false;
  bool over_ BRAID_GUARDED_BY(mutex_) = false;
};

}  // namespace braid
