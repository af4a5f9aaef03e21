// PythonNodes: the Python nodes of one graph, in a worker of their own. Each node has one object, shared by
// all runs of the graph. Any number of executions may be in flight.
//
// If the worker dies, executions in flight fail, and it is restarted after a pause that grows with each
// failure, as for an instance of a model. Until then the nodes are not ready.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "serving/call_chain.h"
#include "serving/parameters.h"
#include "serving/servable.h"
#include "serving/structure.h"
#include "tensor/buffer.h"
#include "tensor/tensor.h"

namespace braid {

struct PythonNodeSpec {
  std::string name;
  std::string handler_path;  // absolute
  // Names of streams in the order of the configuration, with that of LOOPBACK.
  std::vector<std::string> input_names;
  std::vector<std::string> output_names;
  bool loopback = false;
  // Outputs whose bytes are needed outside the graph's Python nodes, and outputs that other Python nodes may
  // receive.
  std::vector<std::string> exported;
  std::vector<std::string> kept;
};

// A pyovms.Tensor object in the worker, released with its last owner.
class NodeObject {
 public:
  virtual ~NodeObject() = default;
};

// A tensor from or for a node: its bytes, the object in the worker, or both.
struct NodeTensor {
  Tensor tensor;
  bool has_bytes = true;                     // false: `tensor.data` is empty, and the bytes are in the object
  std::shared_ptr<const NodeObject> object;  // shared by the packets that carry it; may be null
};

// One step of an execution.
struct NodeStep {
  enum class Kind : unsigned char {
    kList,   // a returned list: the call has ended
    kItem,   // a yielded item; the next one needs Resume()
    kEnd,    // the generator is exhausted or closed
    kError,  // the call has failed with `status`, after `outputs`
  };
  Kind kind = Kind::kList;
  Status status;
  std::vector<NodeTensor> outputs;
};

class NodeCallListener {
 public:
  virtual ~NodeCallListener() = default;
  // Called on any thread, perhaps within Execute() or Resume(), never concurrently for one call. `call` is
  // the number that Execute() returns.
  virtual void OnStep(uint64_t call, NodeStep step) = 0;
};

class PythonNodes {
 public:
  virtual ~PythonNodes() = default;

  // Runs execute() of a node; at least one step always follows. `session` is the run of the graph. Returns
  // the call's number. Never blocks.
  virtual uint64_t Execute(size_t node, uint64_t session, std::vector<NodeTensor> inputs,
                           std::shared_ptr<NodeCallListener> listener) = 0;
  // Asks for the next item of a call whose last step was kItem. Never blocks. Returns false when the call was
  // closed before and is over: no step follows then.
  virtual bool Resume(uint64_t call) = 0;
  // Closes a call's generator. If a step is expected, kEnd or kError follows as soon as user code returns;
  // otherwise nothing follows. A call whose last step was kItem must be resumed or closed. Never blocks.
  virtual void Close(uint64_t call) = 0;

  // Begins or ends a run of the graph: nodes that keep state for it are notified. Calls by nodes in this run
  // are made on behalf of `chain`, the call chain of the run's request; it may be null.
  virtual uint64_t BeginSession(const Parameters& parameters, std::shared_ptr<const CallChain> chain) = 0;
  virtual void EndSession(uint64_t session) = 0;

  virtual Readiness readiness() const = 0;
  // Reports of the worker that runs them. Any thread; does not block.
  virtual std::vector<InstanceReport> instances() const { return {}; }
  // Memory shared with the worker, for the inputs of requests. Lives as long as its buffers.
  virtual BufferAllocator& allocator() = 0;
  // Calls finalize() on all objects and ends the worker, by force at `deadline_ns` (SteadyNowNs() time).
  // Blocks. REQUIRES: called once, when no execution is in flight or those in flight may fail.
  virtual void Stop(int64_t deadline_ns) = 0;
};

}  // namespace braid
