// The sequences that messages to a graph name, for the sessions of its nodes: a request's one, or one for
// each message of a stream. A message names it by the parameters `sequence_id`, `sequence_start` and
// `sequence_end`, which stay parameters as all others are, or by what its protocol has read into the fields
// of the request.
//
// What a node asks of a stateful servable belongs to the sequence of the message at whose time it asks (or of
// the last one before, as a generator's items follow their input). A session may ask several times for one
// message: the first time begins the sequence, when the message does. Which time is the last cannot be known
// when it asks, so a message that ends its sequence lets each session ask once.
//
// A run that fails takes back what its unanswered messages have done (see Compensation).
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

// That of one message. Any thread.
class GraphSequence {
 public:
  // `all` are the graph's servables that have sequences; without any, nothing is taken back.
  GraphSequence(CorrelationId id, bool start, bool end, const std::vector<std::shared_ptr<Servable>>& all);

  // One request of a session.
  struct Ask {
    bool start = false;
    bool end = false;
    std::optional<size_t> part;  // of the compensation, where it has to know of the answer
  };
  // What a request to `servable` is to say, which goes to it next. Errors: FAILED_PRECONDITION when the
  // message ends its sequence and the servable has been asked already.
  Result<Ask> Begin(const std::shared_ptr<Servable>& servable);
  void End(const Ask& ask, const Status& status);

  const CorrelationId& id() const { return id_; }
  // Whether a run that fails may have something to take back.
  bool leaves_something() const { return tells_ || begins_or_ends(); }
  // What responses tell of it: nothing where no servable of the graph has sequences.
  std::optional<uint64_t> told() const;
  // Whether it has asked and all has been answered; in the middle of a sequence, whether anything has.
  bool answered() const;
  // The run has failed and asks nothing any more.
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

// Those of one run. Any thread.
class GraphSequences {
 public:
  // Messages that are remembered; beyond these, the earliest are forgotten.
  static constexpr size_t kMost = 4096;

  explicit GraphSequences(std::shared_ptr<const GraphServables> servables)
      : servables_(std::move(servables)) {}

  // Before the message's packets, which are at time `at`, go in. A start that names no sequence of a graph
  // that has some gets an id here. Errors: INVALID_ARGUMENT when such a graph gets one of the parameters in
  // another type; to others they say nothing then.
  Status Add(graph::Timestamp at, const InferenceRequest& message);
  // That of the last message whose time is not later; null when that one has none.
  std::shared_ptr<GraphSequence> Find(graph::Timestamp at) const;
  // A response at that time has left: messages up to it whose sessions have been answered are done.
  void Responded(graph::Timestamp at);
  // The run has failed and asks nothing any more.
  void TakeBack();

 private:
  const std::shared_ptr<const GraphServables> servables_;  // shared with the graph

  mutable Mutex mutex_;
  // Messages by their time; null for those that name none behind one that does.
  std::map<graph::Timestamp, std::shared_ptr<GraphSequence>> messages_ BRAID_GUARDED_BY(mutex_);
  // Those of them that would have something to take back.
  std::map<graph::Timestamp, std::shared_ptr<GraphSequence>> unanswered_ BRAID_GUARDED_BY(mutex_);
};

// Whether a parameter of this name says something of a sequence.
bool IsSequenceParameter(std::string_view name);
// Puts the id among the parameters of `response`, as `sequence_id`; nothing for no sequence.
void TellSequence(const GraphSequence* sequence, InferenceResponse& response);

}  // namespace braid
