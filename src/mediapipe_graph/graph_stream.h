// GraphStream: a client's stream to a graph is one run of the graph. Each message's inputs go in at a time of
// their own (what the client says, or the message before plus one, 0 for the first); each packet that comes
// out is a response.
//
// Each message names a sequence of its own, or none, and those responses that carry its id tell it too.
//
// A response carries the id of the last message whose time is not later than that of its packet.
#pragma once

#include <memory>

#include "base/status.h"
#include "mediapipe_graph/graph_run.h"
#include "serving/request.h"
#include "serving/servable_stream.h"

namespace braid {

class GraphStreamRun;

class GraphStream final : public ServableStream {
 public:
  // See Servable::OpenStream(). When the graph's slots are taken the stream is open and waits for one.
  static Result<std::shared_ptr<ServableStream>> Open(std::shared_ptr<GraphHost> host,
                                                      InferenceRequest& first, StreamSink& sink);

  // For Open() alone.
  explicit GraphStream(std::shared_ptr<GraphStreamRun> run) : run_(std::move(run)) {}
  // As Cancel().
  ~GraphStream() override;

  Status Push(InferenceRequest& message) override;
  void CloseInputs() override;
  void Cancel() override;
  void SetPaused(bool paused) override;
  bool wants_input() const override;

 private:
  const std::shared_ptr<GraphStreamRun> run_;  // shared with the run of the graph, whose observer it is
};

}  // namespace braid
