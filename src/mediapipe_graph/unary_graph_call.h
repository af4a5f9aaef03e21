// UnaryGraphCall: one request to a graph: its inputs go in at one time, the inputs are closed, and when the
// run has ended, the first packet of each output is the response.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/status.h"
#include "graph/packet.h"
#include "mediapipe_graph/graph_run.h"
#include "serving/request.h"

namespace braid {

class UnaryGraphCall final : public GraphRun {
 public:
  // Checks the request and answers it; never blocks. REQUIRES: the request is inside the servable that
  // `host` belongs to.
  static void Start(std::shared_ptr<GraphHost> host, std::unique_ptr<InferenceRequest> request);

  // For Start() alone.
  UnaryGraphCall(std::shared_ptr<GraphHost> host, GraphCall call, std::unique_ptr<InferenceRequest> request);

 private:
  Status ReadInputs();
  // Has the run stopped when the client is gone or the request's time is over.
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

  mutable std::mutex mutex_;
  // Guarded by mutex_, but for OnOver(), when nobody else calls any more.
  std::vector<graph::Packet> outputs_;  // one for each output, empty before its first packet
  size_t missing_;
  bool answered_ = false;  // all outputs are there, and more than that is not waited for
};

}  // namespace braid
