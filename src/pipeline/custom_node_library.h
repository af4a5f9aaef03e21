// Custom nodes: shared libraries of users that do the work of a pipeline's node, by the C interface of
// include/custom_node_interface.h.
//
//   BRAID_ASSIGN_OR_RETURN(auto library, CustomNodeLibrary::Open("resize", "/models/libresize.so"));
//   BRAID_ASSIGN_OR_RETURN(auto code, library->CodeFor("my_node", params));
//   BRAID_ASSIGN_OR_RETURN(auto outputs, code->Execute(inputs));
//
// All errors are FaultError()s. Libraries that are opened here run inside this process: one that crashes takes it along. Those
// of backends/native/isolated_nodes.h run in processes of their own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "serving/servable.h"
#include "serving/structure.h"
#include "tensor/tensor.h"

namespace braid {

class CustomNodeCode;

class CustomNodeLibrary {
 public:
  // Loads the library and finds its functions; initialize and deinitialize may be missing (libraries from
  // before 2022.1). Errors: kPathInvalid, kNodeLibraryLoadFailedOpen, kNodeLibraryLoadFailedSymbol.
  static Result<std::shared_ptr<const CustomNodeLibrary>> Open(std::string name, const std::string& path);
  virtual ~CustomNodeLibrary() = default;

  virtual const std::string& name() const = 0;

  // Initializes the library for a node with these parameters. The library goes with its last node. Errors:
  // kNodeLibraryInitializeFailed.
  virtual Result<std::shared_ptr<const CustomNodeCode>> CodeFor(
      std::string node, std::vector<std::pair<std::string, std::string>> params) const = 0;

 protected:
  CustomNodeLibrary() = default;
};

// One node's use of a library: its parameters and what the library keeps for it. Any thread; several
// executions at once.
class CustomNodeCode {
 public:
  // Has the library deinitialize the node.
  virtual ~CustomNodeCode() = default;

  // What the node takes and gives; a dimension of 0 is told as -1. Errors: kNodeLibraryMetadataFailed,
  // kNodeLibraryOutputsCorrupted, kNodeLibraryOutputsCorruptedCount.
  virtual Result<std::vector<TensorSpec>> Inputs() const = 0;
  virtual Result<std::vector<TensorSpec>> Outputs() const = 0;

  // Blocks for as long as the user's code takes. The memory of outputs is the library's own, given back to it
  // when nobody holds a share any more. Errors: kNodeLibraryExecutionFailed and its like.
  virtual Result<std::vector<Tensor>> Execute(const std::vector<Tensor>& inputs) const = 0;

  // Where inputs are best written to: a process that runs it reads them there. Null: anywhere. It lives as long as this.
  virtual BufferAllocator* input_allocator() const { return nullptr; }

  // The process that runs it, and how that is; nothing where it is the server. Any thread; does not block.
  virtual std::optional<InstanceReport> report() const { return std::nullopt; }

  // It is to run no more: what takes more than memory ends now, by force at `deadline_ns` (SteadyNowNs()). Executions that
  // come afterwards may fail.
  virtual void Stop(int64_t deadline_ns) const { (void)deadline_ns; }

 protected:
  CustomNodeCode() = default;
};

}  // namespace braid
