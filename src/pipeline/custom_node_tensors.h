// Passes tensors to a custom node library and takes them from it, without copying their bytes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "include/custom_node_interface.h"
#include "pipeline/custom_node_functions.h"
#include "tensor/tensor.h"

namespace braid {

// Returns the interface's precision; UNSPECIFIED for types without one.
CustomNodeTensorPrecision PrecisionOf(DataType type);
// Returns the type; kInvalid for UNSPECIFIED and for invalid numbers, which a library's memory may contain.
DataType TypeOf(const CustomNodeTensorPrecision& precision);

// Tensors as a library sees them. The tensors outlive this object.
class NodeInputs {
 public:
  explicit NodeInputs(const std::vector<Tensor>& tensors);
  const CustomNodeTensor* data() const { return tensors_.data(); }
  int size() const { return static_cast<int>(tensors_.size()); }

 private:
  std::vector<uint64_t> dims_;  // of all tensors, one behind the other
  std::vector<CustomNodeTensor> tensors_;
};

// Takes over the outputs of an execution. The array and all dims return to the library before this function
// does. Each tensor has the library's memory as its buffer; after an error the data are returned, too.
// `where` precedes the errors' details: "library 'x', node 'y'". Errors: kNodeLibraryOutputsCorrupted,
// ...OutputsCorruptedCount, ...OutputMissingName, ...InvalidShape, ...InvalidPrecision,
// ...InvalidContentSize.
Result<std::vector<Tensor>> TakeOutputs(const std::shared_ptr<const NodeManager>& manager,
                                        CustomNodeTensor* outputs, int count, const std::string& where);

// Takes over the results of an info function in the same way. Errors: kNodeLibraryOutputsCorrupted,
// ...OutputsCorruptedCount, ...MetadataFailed.
Result<std::vector<TensorSpec>> TakeInfo(const NodeManager& manager, CustomNodeTensorInfo* info, int count,
                                         const std::string& where);

}  // namespace braid
