// InputHandler: when a node runs, and with which packets: MediaPipe's "input stream handler". Each kind is a
// file under handlers/ and a line in handlers/handler_kinds.cc.
//
// A handler belongs to one node of one run. It is called with the run's lock held, whenever something at the
// node's inputs has changed while the node does not run; so it only looks at the queues and takes from them.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "graph/calculator.h"
#include "graph/packet_queue.h"

namespace braid::graph {

// What waits at a node's inputs, by the number of the input, and what its next call gets.
class NodeInputs {
 public:
  virtual int size() const = 0;
  virtual const PacketQueue& queue(int input) const = 0;
  // The least time that a packet which is still to come may have; Done() when the stream is closed.
  virtual Timestamp bound(int input) const = 0;

  // The least time of what is there or is to come.
  Timestamp Next(int input) const {
    return queue(input).empty() ? bound(input) : queue(input).front().timestamp();
  }
  bool done(int input) const { return queue(input).empty() && bound(input) == Timestamp::Done(); }

  // Takes the first packet for the node's next call. REQUIRES: its queue is not empty.
  void Take(int input) { Give(input, Pop(input)); }
  virtual Packet Pop(int input) = 0;
  // Lets go of the first packet. REQUIRES: its queue is not empty.
  virtual void Drop(int input) = 0;
  virtual void Give(int input, Packet packet) = 0;

 protected:
  ~NodeInputs() = default;
};

struct HandlerStep {
  enum class Kind : unsigned char {
    kWait,     // nothing before `timestamp` will be processed any more
    kProcess,  // the node is to be called for `timestamp`, with what was given
    kClose,    // nothing more will be processed
    kFail,     // what has come is wrong: `error`
  };
  Kind kind = Kind::kWait;
  Timestamp timestamp;
  Status error = {};
};

class InputHandler {
 public:
  virtual ~InputHandler() = default;
  // What the node is to do next.
  virtual HandlerStep Next(NodeInputs& inputs) = 0;
  // A packet has come to an input; called at once, also while the node runs.
  virtual void OnArrival(NodeInputs& inputs, int input) {
    static_cast<void>(inputs);
    static_cast<void>(input);
  }
};

// A handler with its options, as it was checked when the graph was loaded; shared by all runs.
class InputHandlerPlan {
 public:
  virtual ~InputHandlerPlan() = default;
  virtual std::unique_ptr<InputHandler> Make() const = 0;
  // False when packets may come to the node out of the order of time.
  virtual bool keeps_time() const { return true; }
  // Whether OnArrival() is to be called.
  virtual bool wants_arrivals() const { return false; }
};

// `name` is "" for the default; `contract` is that of the node. Errors: INVALID_ARGUMENT for a name that is
// not known and for options that do not fit the node.
Result<std::shared_ptr<const InputHandlerPlan>> PlanInputHandler(const std::string& name,
                                                                 const ::mediapipe::MediaPipeOptions& options,
                                                                 const Contract& contract);

}  // namespace braid::graph
