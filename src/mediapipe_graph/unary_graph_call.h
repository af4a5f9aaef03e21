// UnaryGraphCall: one request to a graph. Its inputs enter the graph at one time, and the inputs are closed.
// When the run has ended, the first packet of each output is the response.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "base/status.h"
#include "graph/packet.h"
#include "mediapipe_graph/graph_run.h"
#include "serving/request.h"

namespace braid {

class UnaryGraphCall final : public GraphRun {
 public:
  // Checks the request and answers it; never blocks. REQUIRES: the request is inside the gate of `host`'s
  // servable.
  static void Start(std::shared_ptr<GraphHost> host, std::unique_ptr<InferenceRequest> request);

  // For Start() alone.
  UnaryGraphCall(std::shared_ptr<GraphHost> host, GraphCall call, std::unique_ptr<InferenceRequest> request);

 private:
  Status ReadInputs();
  // Stops the run when the client disconnects or the request times out.
  void WatchClient();

  void OnBegun(graph::Run& run) override;
  void OnPacket(int output, graph::Packet packet) override;
  void OnOver(Status status) override;

  Status MakeResponse(InferenceResponse& response) const;
  void Succeed(InferenceResponse response);
  void Fail(Status status);

  const std::unique_ptr<InferenceRequest> request_;
  graph::Timestamp timestamp_{0};
  std::vector<std::pair<int, graph::Packet>> inputs_;  // until it has begun
  TimerId timer_;

  // Used by the run, which makes one call at a time.
  std::vector<graph::Packet> outputs_;  // one for each output, empty before its first packet
  size_t missing_;
  bool answered_ = false;  // all outputs are there; the run is stopped
};

}  // namespace braid
