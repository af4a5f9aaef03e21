// Custom nodes: shared libraries of users that do the work of a pipeline's node, by the C interface of
// include/custom_node_interface.h.
//
//   BRAID_ASSIGN_OR_RETURN(auto library, CustomNodeLibrary::Open("resize", "/models/libresize.so"));
//   BRAID_ASSIGN_OR_RETURN(auto code, CustomNodeCode::Create(library, "my_node", params));
//   BRAID_ASSIGN_OR_RETURN(auto outputs, code->Execute(inputs));
//
// All errors are FaultError()s. Libraries run inside the server: one that crashes takes the server with it.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "serving/servable.h"
#include "tensor/tensor.h"

namespace braid {

class CustomNodeLibrary {
 public:
  // Loads the library and finds its functions; initialize and deinitialize may be missing (libraries from
  // before 2022.1). Errors: kPathInvalid, kNodeLibraryLoadFailedOpen, kNodeLibraryLoadFailedSymbol.
  static Result<std::shared_ptr<const CustomNodeLibrary>> Open(std::string name, const std::string& path);
  virtual ~CustomNodeLibrary() = default;

  virtual const std::string& name() const = 0;

 protected:
  CustomNodeLibrary() = default;
};

// One node's use of a library: its parameters and what the library keeps for it. Any thread; several
// executions at once.
class CustomNodeCode {
 public:
  // Errors: kNodeLibraryInitializeFailed.
  static Result<std::shared_ptr<const CustomNodeCode>> Create(
      std::shared_ptr<const CustomNodeLibrary> library, std::string node,
      std::vector<std::pair<std::string, std::string>> params);
  // Calls deinitialize; the library goes with its last node.
  virtual ~CustomNodeCode() = default;

  // What the node takes and gives; a dimension of 0 is told as -1. Errors: kNodeLibraryMetadataFailed,
  // kNodeLibraryOutputsCorrupted, kNodeLibraryOutputsCorruptedCount.
  virtual Result<std::vector<TensorSpec>> Inputs() const = 0;
  virtual Result<std::vector<TensorSpec>> Outputs() const = 0;

  // Blocks for as long as the user's code takes. The memory of outputs is the library's own, given back to it
  // when nobody holds a share any more. Errors: kNodeLibraryExecutionFailed and its like.
  virtual Result<std::vector<Tensor>> Execute(const std::vector<Tensor>& inputs) const = 0;

 protected:
  CustomNodeCode() = default;
};

}  // namespace braid
