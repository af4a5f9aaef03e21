// How tensors cross the border of a custom node library, in both directions, without a copy of their bytes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "include/custom_node_interface.h"
#include "pipeline/custom_node_functions.h"
#include "tensor/tensor.h"

namespace braid {

// UNSPECIFIED for types that the interface has no number for.
CustomNodeTensorPrecision PrecisionOf(DataType type);
// kInvalid for UNSPECIFIED and for numbers that mean nothing: any may stand in a library's memory.
DataType TypeOf(const CustomNodeTensorPrecision& precision);

// Tensors as a library sees them; they outlive this.
class NodeInputs {
 public:
  explicit NodeInputs(const std::vector<Tensor>& tensors);
  const CustomNodeTensor* data() const { return tensors_.data(); }
  int size() const { return static_cast<int>(tensors_.size()); }

 private:
  std::vector<uint64_t> dims_;  // of all tensors, one behind the other
  std::vector<CustomNodeTensor> tensors_;
};

// Takes over what an execution has handed out. The array and all dims go back to the library before this
// returns, and so do all data when there is an error; else each tensor has the library's memory as its
// buffer. `where` stands in front of the errors' details: "library 'x', node 'y'". Errors:
// kNodeLibraryOutputsCorrupted, ...OutputsCorruptedCount, ...OutputMissingName, ...InvalidShape,
// ...InvalidPrecision, ...InvalidContentSize.
Result<std::vector<Tensor>> TakeOutputs(const std::shared_ptr<const NodeManager>& manager,
                                        CustomNodeTensor* outputs, int count, const std::string& where);

// The same for what an info function has handed out. Errors: kNodeLibraryOutputsCorrupted,
// ...OutputsCorruptedCount, ...MetadataFailed.
Result<std::vector<TensorSpec>> TakeInfo(const NodeManager& manager, CustomNodeTensorInfo* info, int count,
                                         const std::string& where);

}  // namespace braid
