// PythonNodes: the Python nodes of one graph, in a worker of their own. Each node has one object, shared by
// all runs of the graph; any number of executions are under way at once.
//
// A worker that dies fails what is under way in it, and is started anew after a pause that grows with each
// failure, as an instance of a model is; meanwhile the nodes are not ready.
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
  // Names of streams in the order of the configuration, that of LOOPBACK among them.
  std::vector<std::string> input_names;
  std::vector<std::string> output_names;
  bool loopback = false;
  // Outputs whose bytes somebody beside the nodes of this graph needs, and those that such nodes may get.
  std::vector<std::string> exported;
  std::vector<std::string> kept;
};

// A pyovms.Tensor object in the worker; let go of with the last share.
class NodeObject {
 public:
  virtual ~NodeObject() = default;
};

// A tensor from or for a node: its bytes, the object in the worker, or both.
struct NodeTensor {
  Tensor tensor;
  bool has_bytes = true;                     // false: `tensor.data` is empty, and the bytes are the object's
  std::shared_ptr<const NodeObject> object;  // shared by the packets that carry it; may be null
};

// What an execution has come to.
struct NodeStep {
  enum class Kind : unsigned char {
    kList,   // execute() has returned a list: the call has ended
    kItem,   // its generator has yielded one; the next comes after Resume()
    kEnd,    // the generator is exhausted or closed: the call has ended
    kError,  // the call has ended with `status`; `outputs` come before it
  };
  Kind kind = Kind::kList;
  Status status;
  std::vector<NodeTensor> outputs;
};

class NodeCallListener {
 public:
  virtual ~NodeCallListener() = default;
  // On any thread, perhaps within Execute() or Resume(), never twice at the same time. `call` is the number
  // that Execute() returns.
  virtual void OnStep(uint64_t call, NodeStep step) = 0;
};

class PythonNodes {
 public:
  virtual ~PythonNodes() = default;

  // Runs execute() of a node; always answered by a step. `session` is the run of the graph that it belongs
  // to. Returns the call's number. Never blocks.
  virtual uint64_t Execute(size_t node, uint64_t session, std::vector<NodeTensor> inputs,
                           std::shared_ptr<NodeCallListener> listener) = 0;
  // Asks for the next item of a call whose last step was kItem. Never blocks. False when the call was closed
  // before and is over: no step comes then.
  virtual bool Resume(uint64_t call) = 0;
  // Nobody wants more of a call: its generator is closed. If a step is awaited, kEnd or kError comes as soon
  // as the code is out of what it is in; else nothing. A call whose last step was kItem is to be resumed or
  // closed. Never blocks.
  virtual void Close(uint64_t call) = 0;

  // A run of the graph begins, or ends: nodes that keep state for it are told. `chain` is that of the request
  // which it runs for, or null; what nodes call in this run is called on its behalf.
  virtual uint64_t BeginSession(const Parameters& parameters, std::shared_ptr<const CallChain> chain) = 0;
  virtual void EndSession(uint64_t session) = 0;

  virtual Readiness readiness() const = 0;
  // The worker that runs them. Any thread; does not block.
  virtual std::vector<InstanceReport> instances() const { return {}; }
  // Memory that the worker sees, for the inputs of requests. Lives as long as its buffers.
  virtual BufferAllocator& allocator() = 0;
  // Has finalize() called on all objects and ends the worker, by force at `deadline_ns` (SteadyNowNs() time).
  // Blocks; called once, when nothing is under way any more or is to fail.
  virtual void Stop(int64_t deadline_ns) = 0;
};

}  // namespace braid
