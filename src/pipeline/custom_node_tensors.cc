#include "pipeline/custom_node_tensors.h"

#include <cstring>
#include <limits>
#include <utility>

#include "serving/faults.h"

namespace braid {
namespace {

// More than any node has. A library that returns a larger count has not set it, and the memory behind the
// array must not be read.
constexpr int kMostTensors = 1024;
constexpr uint64_t kMostDimensions = 64;

constexpr std::pair<CustomNodeTensorPrecision, DataType> kPrecisions[] = {
    {FP32, DataType::kFp32}, {FP16, DataType::kFp16}, {U8, DataType::kUint8},
    {I8, DataType::kInt8},   {I16, DataType::kInt16}, {U16, DataType::kUint16},
    {I32, DataType::kInt32}, {FP64, DataType::kFp64}, {I64, DataType::kInt64},
};

// The memory of one output, allocated by the library.
class LibraryMemory final : public BufferOwner {
 public:
  LibraryMemory(std::shared_ptr<const NodeManager> manager, void* data)
      : manager_(std::move(manager)), data_(data) {}
  ~LibraryMemory() override { manager_->Release(data_); }

 private:
  const std::shared_ptr<const NodeManager> manager_;  // keeps the library loaded while its memory is read
  void* const data_;
};

// Returns an array of descriptions of `Item` to the library on every path.
template <class Item>
class HandedOut {
 public:
  // If the count cannot be right, the items are not read.
  HandedOut(const NodeManager& manager, Item* items, int count)
      : manager_(manager), items_(items), count_(count > 0 && count <= kMostTensors ? count : 0) {}
  ~HandedOut() {
    if (items_ == nullptr) return;
    for (int i = 0; i < count_; ++i) {
      manager_.Release(items_[i].dims);
      if constexpr (requires { items_[i].data; }) manager_.Release(items_[i].data);
    }
    manager_.Release(items_);
  }
  HandedOut(const HandedOut&) = delete;
  HandedOut& operator=(const HandedOut&) = delete;

  Status Check(const std::string& where) const {
    if (items_ == nullptr) return FaultError(Fault::kNodeLibraryOutputsCorrupted, where);
    if (count_ == 0) return FaultError(Fault::kNodeLibraryOutputsCorruptedCount, where);
    return OkStatus();
  }

 private:
  const NodeManager& manager_;
  Item* const items_;
  const int count_;
};

std::string OutputOf(const std::string& where, const char* name) { return where + ", output '" + name + "'"; }

// Shape, type and size of one output. Sets all of `tensor` but its data.
Status ReadOutput(const CustomNodeTensor& output, const std::string& where, Tensor& tensor) {
  if (output.name == nullptr) return FaultError(Fault::kNodeLibraryOutputMissingName, where);
  tensor.name = output.name;
  if (output.dims == nullptr || output.dimsCount == 0 || output.dimsCount > kMostDimensions) {
    return FaultError(Fault::kNodeLibraryInvalidShape,
                      OutputOf(where, output.name) + ": " +
                          (output.dims == nullptr ? "no dims" : std::to_string(output.dimsCount) + " dims"));
  }
  for (uint64_t i = 0; i < output.dimsCount; ++i) {
    if (output.dims[i] > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return FaultError(Fault::kNodeLibraryInvalidShape,
                        OutputOf(where, output.name) + ": a dimension of " + std::to_string(output.dims[i]));
    }
    tensor.shape.push_back(static_cast<int64_t>(output.dims[i]));
  }
  tensor.type = TypeOf(output.precision);
  if (tensor.type == DataType::kInvalid) {
    return FaultError(Fault::kNodeLibraryInvalidPrecision, OutputOf(where, output.name));
  }
  const std::optional<size_t> bytes = ByteSize(tensor.type, tensor.shape);
  if (!bytes) {
    return FaultError(Fault::kNodeLibraryInvalidShape,
                      OutputOf(where, output.name) + ": too many elements: " + ShapeToString(tensor.shape));
  }
  if (*bytes != output.dataBytes) {
    return FaultError(Fault::kNodeLibraryInvalidContentSize,
                      OutputOf(where, output.name) + ": Expected: " + std::to_string(*bytes) +
                          " bytes; Actual: " + std::to_string(output.dataBytes) + " bytes");
  }
  if (output.data == nullptr && *bytes != 0) {
    return FaultError(Fault::kNodeLibraryInvalidContentSize, OutputOf(where, output.name) + ": no data");
  }
  return OkStatus();
}

}  // namespace

CustomNodeTensorPrecision PrecisionOf(DataType type) {
  for (const auto& [precision, of] : kPrecisions) {
    if (of == type) return precision;
  }
  return UNSPECIFIED;
}

DataType TypeOf(const CustomNodeTensorPrecision& precision) {
  // Copied to an int, since an enumeration must not hold a number other than its own.
  int number = 0;
  static_assert(sizeof(number) == sizeof(precision));
  std::memcpy(&number, &precision, sizeof(number));
  for (const auto& [known, type] : kPrecisions) {
    if (known == number) return type;
  }
  return DataType::kInvalid;
}

NodeInputs::NodeInputs(const std::vector<Tensor>& tensors) {
  size_t dims = 0;
  for (const Tensor& tensor : tensors) dims += tensor.shape.size();
  dims_.reserve(dims);  // the addresses below stay
  tensors_.reserve(tensors.size());
  for (const Tensor& tensor : tensors) {
    CustomNodeTensor& input = tensors_.emplace_back();
    input.name = tensor.name.c_str();
    // The interface has no const here, but forbids writing.
    input.data = reinterpret_cast<uint8_t*>(const_cast<std::byte*>(tensor.data.data()));
    input.dataBytes = tensor.data.size();
    input.dims = dims_.data() + dims_.size();
    input.dimsCount = tensor.shape.size();
    input.precision = PrecisionOf(tensor.type);
    for (int64_t size : tensor.shape) dims_.push_back(static_cast<uint64_t>(size));
  }
}

Result<std::vector<Tensor>> TakeOutputs(const std::shared_ptr<const NodeManager>& manager,
                                        CustomNodeTensor* outputs, int count, const std::string& where) {
  const HandedOut<CustomNodeTensor> handed_out(*manager, outputs, count);
  BRAID_RETURN_IF_ERROR(handed_out.Check(where));
  std::vector<Tensor> tensors(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    BRAID_RETURN_IF_ERROR(ReadOutput(outputs[i], where, tensors[static_cast<size_t>(i)]));
  }
  for (int i = 0; i < count; ++i) {
    void* const data = outputs[i].data;
    if (data == nullptr) continue;
    tensors[static_cast<size_t>(i)].data =
        Buffer(static_cast<std::byte*>(data), outputs[i].dataBytes, new LibraryMemory(manager, data));
    outputs[i].data = nullptr;  // now owned by the buffer
  }
  return tensors;
}

Result<std::vector<TensorSpec>> TakeInfo(const NodeManager& manager, CustomNodeTensorInfo* info, int count,
                                         const std::string& where) {
  const HandedOut<CustomNodeTensorInfo> handed_out(manager, info, count);
  BRAID_RETURN_IF_ERROR(handed_out.Check(where));
  std::vector<TensorSpec> specs;
  for (int i = 0; i < count; ++i) {
    const CustomNodeTensorInfo& item = info[i];
    if (item.name == nullptr) continue;
    TensorSpec& spec = specs.emplace_back();
    spec.name = item.name;
    spec.type = TypeOf(item.precision);
    if (item.dims == nullptr || item.dimsCount == 0 || item.dimsCount > kMostDimensions) {
      return FaultError(Fault::kNodeLibraryMetadataFailed, where + ": '" + spec.name + "' has no dims");
    }
    for (uint64_t d = 0; d < item.dimsCount; ++d) {
      if (item.dims[d] > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        return FaultError(Fault::kNodeLibraryMetadataFailed,
                          where + ": '" + spec.name + "' has a dimension of " + std::to_string(item.dims[d]));
      }
      spec.shape.push_back(item.dims[d] == 0 ? -1 : static_cast<int64_t>(item.dims[d]));
    }
  }
  return specs;
}

}  // namespace braid
