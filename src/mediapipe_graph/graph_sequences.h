// The sequences of messages to a graph, for the stateful servables that its nodes call: one for a request, or
// one for each message of a stream. A message names its sequence by the parameters `sequence_id`,
// `sequence_start` and `sequence_end`, which are passed on like other parameters. It may also use the
// request's fields, which its protocol has set.
//
// A node's call of a stateful servable belongs to the sequence of the message at that time, or of the last
// message before (a generator's items follow their input). A session may make several calls for one message.
// If the message begins the sequence, the first call does so. The last call is not known when it is made, so
// a message that ends its sequence allows one call per session.
//
// A run that fails takes back the effects of its unanswered messages (see Compensation).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "graph/timestamp.h"
#include "mediapipe_graph/graph_servables.h"
#include "serving/compensation.h"
#include "serving/request.h"
#include "serving/servable.h"

namespace braid {

// The sequence of one message. Any thread.
class GraphSequence {
 public:
  // `all` are the graph's servables that have sequences; if there are none, nothing is taken back.
  GraphSequence(CorrelationId id, bool start, bool end, const std::vector<std::shared_ptr<Servable>>& all);

  // One request of a session.
  struct Ask {
    bool start = false;
    bool end = false;
    std::optional<size_t> part;  // of the compensation, if it must be told the answer
  };
  // Returns the sequence flags of the next request to `servable`. Errors: FAILED_PRECONDITION when the
  // message ends its sequence and the servable has already been called.
  Result<Ask> Begin(const std::shared_ptr<Servable>& servable);
  void End(const Ask& ask, const Status& status);

  const CorrelationId& id() const { return id_; }
  // Whether a failed run may have effects to take back.
  bool leaves_something() const { return tells_ || begins_or_ends(); }
  // Returns the id for responses; nothing if no servable of the graph has sequences.
  std::optional<uint64_t> told() const;
  // Whether it has made calls and all are answered; in the middle of a sequence, one answered call is enough.
  bool answered() const;
  // Takes its effects back. The run has failed and makes no more calls.
  void TakeBack();

 private:
  struct Part {
    std::weak_ptr<Servable> servable;
    size_t in_compensation = 0;
    bool asked = false;
  };

  bool begins_or_ends() const { return start_ || end_; }

  const CorrelationId id_;
  const bool start_;
  const bool end_;
  const bool tells_;
  Compensation compensation_;

  mutable Mutex mutex_;
  std::vector<Part> parts_ BRAID_GUARDED_BY(mutex_);
  size_t open_ BRAID_GUARDED_BY(mutex_) = 0;
  size_t answers_ BRAID_GUARDED_BY(mutex_) = 0;
};

// The sequences of one run. Any thread.
class GraphSequences {
 public:
  // Maximum number of remembered messages; beyond it, the earliest are forgotten.
  static constexpr size_t kMost = 4096;

  explicit GraphSequences(std::shared_ptr<const GraphServables> servables)
      : servables_(std::move(servables)) {}

  // Adds a message before its packets, at time `at`, enter the graph. In a graph with sequences, a start
  // without an id gets an id here. Errors: INVALID_ARGUMENT when such a graph gets one of the parameters in
  // another type; other graphs ignore that.
  Status Add(graph::Timestamp at, const InferenceRequest& message);
  // Returns the sequence of the last message whose time is not later; null if that message has none.
  std::shared_ptr<GraphSequence> Find(graph::Timestamp at) const;
  // A response at that time has left: forgets the effects of messages up to it whose calls are answered.
  void Responded(graph::Timestamp at);
  // Takes all effects back. The run has failed and makes no more calls.
  void TakeBack();

 private:
  const std::shared_ptr<const GraphServables> servables_;  // shared with the graph

  mutable Mutex mutex_;
  // Messages by time. A message without a sequence is null, if one before it has a sequence.
  std::map<graph::Timestamp, std::shared_ptr<GraphSequence>> messages_ BRAID_GUARDED_BY(mutex_);
  // Those of them with effects to take back.
  std::map<graph::Timestamp, std::shared_ptr<GraphSequence>> unanswered_ BRAID_GUARDED_BY(mutex_);
};

// Whether the parameter describes a sequence.
bool IsSequenceParameter(std::string_view name);
// Sets the parameter `sequence_id` of `response`; no effect for no sequence.
void TellSequence(const GraphSequence* sequence, InferenceResponse& response);

}  // namespace braid
