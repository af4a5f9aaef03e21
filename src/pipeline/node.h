// Node: what does the work of one node of a DAG. It is something asynchronous that takes named tensors and
// answers any number of times: a servable, or code that lives in this process.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "serving/cancellation.h"
#include "serving/request.h"
#include "tensor/buffer.h"
#include "tensor/tensor.h"

namespace braid {

class Servable;

// One run of a node, and where its answers go. Answers of one run come one after the other, on any thread.
class NodeRun {
 public:
  virtual ~NodeRun() = default;

  // The tensors, under the names by which the node knows its inputs. The node takes them out.
  std::vector<Tensor> inputs;
  // Marked when nobody waits for the answers any more; shared with the session, which marks it.
  std::shared_ptr<Cancellation> cancellation;

  // One answer: the tensors under the names by which the node knows its outputs (others are dropped), nothing
  // when the run only ends, or an error, which ends the session. Nothing may follow the `final` one. Any
  // thread, also one that is inside Run(); does not block.
  virtual void Answer(Result<std::optional<std::vector<Tensor>>> outputs, bool final) = 0;
};

// What a node holds for one session, so that the session sees one state of it from beginning to end.
class NodeSession {
 public:
  virtual ~NodeSession() = default;
  // Starts a run; never blocks. Called by one thread of the session at a time, while `request`, for which the
  // session runs, has not ended.
  virtual void Run(const InferenceRequest& request, std::unique_ptr<NodeRun> run) = 0;
  // Memory for inputs that the node reads without a further copy; null where any does.
  virtual BufferAllocator* input_allocator() { return nullptr; }
  // The servable that it runs; null for code that lives in this process.
  virtual std::shared_ptr<Servable> servable() const { return nullptr; }
};

// Shared by all sessions; any thread.
class Node {
 public:
  virtual ~Node() = default;
  // Errors: what keeps the node from working now.
  virtual Result<std::unique_ptr<NodeSession>> Open() const = 0;
};

}  // namespace braid
