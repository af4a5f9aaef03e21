#include "serving/string_tensors.h"

#include <algorithm>
#include <cstring>

#include "serving/faults.h"
#include "tensor/bytes_elements.h"
#include "tensor/shared_bytes.h"

namespace braid {
namespace {

// Limit on one matrix: one long text among many short ones makes a large matrix of zeros.
constexpr uint64_t kMostBytes = uint64_t{256} << 20;

Result<Tensor> ToRows(const Tensor& strings, BufferAllocator& allocator) {
  const std::string input = "input name: " + strings.name;
  if (strings.shape.size() != 1) {
    return FaultError(Fault::kInvalidNoOfShapeDimensions,
                      "Expected number of dimensions of strings: 1; Actual: " +
                          std::to_string(strings.shape.size()) + "; " + input);
  }
  BRAID_ASSIGN_OR_RETURN(const Buffer bytes, OutOfReach(strings.data));
  uint64_t count = 0;
  uint64_t longest = 0;
  BytesElements elements(bytes.text());
  for (; elements.Next(); ++count) longest = std::max<uint64_t>(longest, elements.value().size());
  if (elements.truncated()) {
    return FaultError(Fault::kInvalidStringInput,
                      "the data ends inside string " + std::to_string(count) + "; " + input);
  }
  if (strings.shape[0] < 0 || count != static_cast<uint64_t>(strings.shape[0])) {
    return FaultError(Fault::kInvalidValueCount, "Expected: " + std::to_string(strings.shape[0]) +
                                                     " values; Actual: " + std::to_string(count) +
                                                     " values; " + input);
  }
  // Lengths have 32 bits, and each string takes at least four bytes.
  const uint64_t width = longest + 1;
  if (count > kMostBytes / width) {
    return FaultError(Fault::kInvalidStringInput, std::to_string(count) + " rows of " +
                                                      std::to_string(width) + " bytes are more than " +
                                                      std::to_string(kMostBytes) + " bytes; " + input);
  }

  Tensor rows{strings.name, DataType::kUint8, {}, {}};
  rows.shape = {static_cast<int64_t>(count), static_cast<int64_t>(width)};
  BRAID_ASSIGN_OR_RETURN(rows.data, allocator.Allocate(count * width));
  std::byte* to = rows.data.mutable_data();
  BytesElements again(bytes.text());
  for (; again.Next(); to += width) {
    const std::string_view value = again.value();
    if (!value.empty()) std::memcpy(to, value.data(), value.size());
    std::memset(to + value.size(), 0, width - value.size());
  }
  return rows;
}

Result<Tensor> ToStrings(const Tensor& rows, BufferAllocator& allocator) {
  const auto count = static_cast<size_t>(rows.shape[0]);
  const auto width = static_cast<size_t>(rows.shape[1]);
  // Rows without bytes use no memory until each becomes a string.
  if (count > kMostBytes / sizeof(uint32_t)) {
    return FaultError(Fault::kInternalError,
                      "too many strings in output '" + rows.name + "': " + std::to_string(count));
  }
  BRAID_ASSIGN_OR_RETURN(const Buffer data, OutOfReach(rows.data));
  const char* from = data.text().data();
  const auto length = [&](size_t row) -> size_t {
    return width == 0 ? 0 : strnlen(from + row * width, std::min<size_t>(width, UINT32_MAX));
  };
  size_t bytes = 0;
  for (size_t row = 0; row < count; ++row) bytes += sizeof(uint32_t) + length(row);

  Tensor strings{rows.name, DataType::kBytes, {rows.shape[0]}, {}};
  BRAID_ASSIGN_OR_RETURN(strings.data, allocator.Allocate(bytes));
  std::byte* to = strings.data.mutable_data();
  for (size_t row = 0; row < count; ++row) {
    const auto size = static_cast<uint32_t>(length(row));
    std::memcpy(to, &size, sizeof(size));
    if (size != 0) std::memcpy(to + sizeof(size), from + row * width, size);
    to += sizeof(size) + size;
  }
  return strings;
}

}  // namespace

Status StringsToRows(const ServableInfo& info, InferenceRequest& request) {
  HeapAllocator heap;
  for (Tensor& input : request.inputs) {
    if (input.type != DataType::kBytes) continue;
    const TensorSpec* spec = info.FindInput(input.name);
    if (spec == nullptr || spec->type != DataType::kUint8 || spec->shape.size() != 2) continue;
    BufferAllocator& allocator =
        request.servable == nullptr ? heap : request.servable->get().input_allocator();
    BRAID_ASSIGN_OR_RETURN(input, ToRows(input, allocator));
  }
  return OkStatus();
}

Status RowsToStrings(std::vector<Tensor>& outputs) {
  HeapAllocator heap;
  for (Tensor& output : outputs) {
    if (output.type != DataType::kUint8 || output.shape.size() != 2) continue;
    if (!output.name.ends_with("_string")) continue;
    BRAID_ASSIGN_OR_RETURN(output, ToStrings(output, heap));
  }
  return OkStatus();
}

}  // namespace braid
