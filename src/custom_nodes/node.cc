#include "custom_nodes/node.h"

#include <algorithm>
#include <new>
#include <stdexcept>
#include <string_view>

namespace braid::custom_nodes {
namespace {

using Part = Memory::Kind::Part;

// Throws if the product does not fit into 64 bits.
uint64_t BytesOf(std::span<const uint64_t> dims, uint64_t element) {
  uint64_t bytes = element;
  for (const uint64_t size : dims) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) throw std::bad_alloc();
  }
  return bytes;
}

bool Matches(const TensorInfo& info, const CustomNodeTensor& tensor) {
  return info.precision == tensor.precision &&
         std::ranges::equal(
             info.dims, std::span(tensor.dims, tensor.dimsCount),
             [](uint64_t expected, uint64_t size) { return expected == 0 || expected == size; });
}

}  // namespace

std::string Describe(CustomNodeTensorPrecision precision, std::span<const uint64_t> dims) {
  constexpr const char* kNames[] = {"another type", "FP32", "FP16", "U8",   "I8",
                                    "I16",          "U16",  "I32",  "FP64", "I64"};
  const auto index = static_cast<size_t>(precision);
  std::string text = std::string(kNames[index < std::size(kNames) ? index : 0]) + " [";
  for (size_t i = 0; i < dims.size(); ++i) text += (i == 0 ? "" : ",") + std::to_string(dims[i]);
  return text + "]";
}

Outputs::Outputs(Memory& memory, const std::vector<TensorInfo>& infos)
    : memory_(memory),
      infos_(infos),
      tensors_(static_cast<CustomNodeTensor*>(
          memory.Take({false, Part::kArray, 0}, infos.size() * sizeof(CustomNodeTensor)))) {
  std::fill_n(tensors_, infos.size(), CustomNodeTensor{});
}

Outputs::~Outputs() {
  if (tensors_ == nullptr) return;
  for (const CustomNodeTensor& tensor : tensors()) {
    memory_.Give(tensor.dims);
    memory_.Give(tensor.data);
  }
  memory_.Give(tensors_);
}

void* Outputs::Add(size_t index, const std::vector<uint64_t>& dims, size_t element) {
  CustomNodeTensor& tensor = tensors_[index];
  tensor.name = infos_[index].name;
  tensor.precision = infos_[index].precision;
  tensor.dataBytes = BytesOf(dims, element);
  tensor.dims =
      static_cast<uint64_t*>(memory_.Take({false, Part::kDims, index}, dims.size() * sizeof(uint64_t)));
  tensor.dimsCount = dims.size();
  std::ranges::copy(dims, tensor.dims);
  tensor.data = static_cast<uint8_t*>(memory_.Take({false, Part::kData, index}, tensor.dataBytes));
  return tensor.data;
}

void Outputs::Give(CustomNodeTensor** tensors, int* count) {
  *count = static_cast<int>(infos_.size());
  *tensors = std::exchange(tensors_, nullptr);
}

std::vector<const CustomNodeTensor*> Node::Sort(std::span<const CustomNodeTensor> given) const {
  std::vector<const CustomNodeTensor*> sorted;
  for (const TensorInfo& info : inputs_) {
    const auto named = [&](const CustomNodeTensor& tensor) {
      return tensor.name != nullptr && std::string_view(tensor.name) == info.name;
    };
    const auto found = std::ranges::find_if(given, named);
    if (found == given.end())
      throw std::invalid_argument("input '" + std::string(info.name) + "' is missing");
    if (!Matches(info, *found)) {
      throw std::invalid_argument("input '" + std::string(info.name) + "': expected " +
                                  Describe(info.precision, info.dims) + ", where 0 is any size, got " +
                                  Describe(found->precision, {found->dims, found->dimsCount}));
    }
    // All inputs are of 32 bits.
    if (found->dataBytes != BytesOf({found->dims, found->dimsCount}, sizeof(float)))
      throw std::invalid_argument("input '" + std::string(info.name) + "': its bytes do not match its shape");
    sorted.push_back(&*found);
  }
  if (sorted.size() != given.size()) {
    throw std::invalid_argument("expected " + std::to_string(sorted.size()) + " inputs, got " +
                                std::to_string(given.size()));
  }
  return sorted;
}

}  // namespace braid::custom_nodes
