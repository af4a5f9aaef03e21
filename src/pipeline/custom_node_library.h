// Custom nodes: shared libraries of users that do the work of a pipeline's node, through the C interface of
// include/custom_node_interface.h.
//
//   BRAID_ASSIGN_OR_RETURN(auto library, CustomNodeLibrary::Open("resize", "/models/libresize.so"));
//   BRAID_ASSIGN_OR_RETURN(auto code, library->CodeFor("my_node", params));
//   BRAID_ASSIGN_OR_RETURN(auto outputs, code->Execute(inputs));
//
// All errors are FaultError()s. A library that is opened here runs inside the server process; its crash ends
// the server. backends/native/isolated_nodes.h runs libraries in separate processes.
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
  // Loads the library and finds its functions. initialize and deinitialize may be missing, as in libraries
  // from before 2022.1. Errors: kPathInvalid, kNodeLibraryLoadFailedOpen, kNodeLibraryLoadFailedSymbol.
  static Result<std::shared_ptr<const CustomNodeLibrary>> Open(std::string name, const std::string& path);
  virtual ~CustomNodeLibrary() = default;

  virtual const std::string& name() const = 0;

  // Initializes the library for a node with these parameters. The library stays loaded until its last node is
  // destroyed. Errors: kNodeLibraryInitializeFailed.
  virtual Result<std::shared_ptr<const CustomNodeCode>> CodeFor(
      std::string node, std::vector<std::pair<std::string, std::string>> params) const = 0;

 protected:
  CustomNodeLibrary() = default;
};

// One node's use of a library: its parameters and the library's state for it. Any thread may use it, and
// several executions may run at once.
class CustomNodeCode {
 public:
  // Deinitializes the node in the library.
  virtual ~CustomNodeCode() = default;

  // Return the specs of the node's inputs and outputs; a dimension of 0 is reported as -1. Errors:
  // kNodeLibraryMetadataFailed, kNodeLibraryOutputsCorrupted, kNodeLibraryOutputsCorruptedCount.
  virtual Result<std::vector<TensorSpec>> Inputs() const = 0;
  virtual Result<std::vector<TensorSpec>> Outputs() const = 0;

  // Executes the node; blocks for as long as the user's code takes. The library owns the outputs' memory and
  // gets it back when the last reference is released. Errors: kNodeLibraryExecutionFailed, and those of
  // TakeOutputs().
  virtual Result<std::vector<Tensor>> Execute(const std::vector<Tensor>& inputs) const = 0;

  // Returns the allocator for inputs that a separate process reads in place; null if any memory will do. It
  // lives as long as this object.
  virtual BufferAllocator* input_allocator() const { return nullptr; }

  // Returns the state of the process that runs the node; nothing if the server runs it. Any thread; does not
  // block.
  virtual std::optional<InstanceReport> report() const { return std::nullopt; }

  // Ends everything that holds more than memory, such as a process, by force at `deadline_ns`
  // (SteadyNowNs()). Later executions may fail.
  virtual void Stop(int64_t deadline_ns) const { (void)deadline_ns; }

 protected:
  CustomNodeCode() = default;
};

}  // namespace braid
