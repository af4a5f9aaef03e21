// InputHandler: decides when a node runs and with which packets; MediaPipe's "input stream handler". Each
// kind is a file under handlers/ and a line in handlers/handler_kinds.cc.
//
// A handler belongs to one node of one run. The run calls it with its lock held, whenever an input has
// changed while the node is not running. A handler therefore only reads the queues and takes packets from
// them.
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

// The packets that wait at a node's inputs, by input number, and the packets for its next call.
class NodeInputs {
 public:
  virtual int size() const = 0;
  virtual const PacketQueue& queue(int input) const = 0;
  // The least time that a future packet may have; Done() when the stream is closed.
  virtual Timestamp bound(int input) const = 0;

  // The least time of a waiting or future packet.
  Timestamp Next(int input) const {
    return queue(input).empty() ? bound(input) : queue(input).front().timestamp();
  }
  bool done(int input) const { return queue(input).empty() && bound(input) == Timestamp::Done(); }

  // Takes the first packet for the node's next call. REQUIRES: its queue is not empty.
  void Take(int input) { Give(input, Pop(input)); }
  virtual Packet Pop(int input) = 0;
  // Releases the first packet. REQUIRES: its queue is not empty.
  virtual void Drop(int input) = 0;
  virtual void Give(int input, Packet packet) = 0;

 protected:
  ~NodeInputs() = default;
};

struct HandlerStep {
  enum class Kind : unsigned char {
    kWait,     // no packet before `timestamp` will be processed any more.
    kProcess,  // The node runs for `timestamp` with the given packets.
    kClose,    // No more packets will be processed.
    kFail,     // The packets are faulty: `error`.
  };
  Kind kind = Kind::kWait;
  Timestamp timestamp;
  Status error = {};
};

class InputHandler {
 public:
  virtual ~InputHandler() = default;
  // Returns the node's next step.
  virtual HandlerStep Next(NodeInputs& inputs) = 0;
  // Called at once when a packet has come to an input, also while the node runs.
  virtual void OnArrival(NodeInputs& inputs, int input) {
    static_cast<void>(inputs);
    static_cast<void>(input);
  }
};

// A handler with its options, checked when the graph was loaded; shared by all runs.
class InputHandlerPlan {
 public:
  virtual ~InputHandlerPlan() = default;
  virtual std::unique_ptr<InputHandler> Make() const = 0;
  // False if packets may reach the node out of the order of time.
  virtual bool keeps_time() const { return true; }
  // Whether to call OnArrival().
  virtual bool wants_arrivals() const { return false; }
};

// `name` is "" for the default; `contract` is the node's. Errors: INVALID_ARGUMENT for an unknown name and
// for options that do not fit the node.
Result<std::shared_ptr<const InputHandlerPlan>> PlanInputHandler(const std::string& name,
                                                                 const ::mediapipe::MediaPipeOptions& options,
                                                                 const Contract& contract);

}  // namespace braid::graph
