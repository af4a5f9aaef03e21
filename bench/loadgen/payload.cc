#include "payload.h"

#include <charconv>
#include <cstring>

namespace braid::bench {
namespace {

constexpr size_t kMaxTensorBytes = size_t{1} << 30;
constexpr size_t kMaxBytesLength = size_t{1} << 20;

Result<std::vector<int64_t>> ParseShape(std::string_view text, size_t* elements) {
  std::vector<int64_t> shape;
  *elements = 1;
  const char* at = text.data();
  const char* end = at + text.size();
  while (true) {
    int64_t dimension = 0;
    const auto [next, error] = std::from_chars(at, end, dimension);
    if (error != std::errc() || dimension < 1) return InvalidArgumentError("a shape looks like 1x4");
    if (static_cast<size_t>(dimension) > kMaxTensorBytes / *elements)
      return InvalidArgumentError("tensor too large");
    *elements *= static_cast<size_t>(dimension);
    shape.push_back(dimension);
    if (next == end) return shape;
    if (*next != 'x') return InvalidArgumentError("a shape looks like 1x4");
    at = next + 1;
  }
}

template <class T>
std::string Numbers(size_t elements, int index) {
  std::string data(elements * sizeof(T), '\0');
  for (size_t i = 0; i < elements; ++i) {
    const T value = static_cast<T>((i * 7 + static_cast<size_t>(index) * 13) % 97);
    std::memcpy(data.data() + i * sizeof(T), &value, sizeof(T));
  }
  return data;
}

std::string Strings(size_t elements, size_t bytes_length) {
  std::string data;
  data.reserve(elements * (bytes_length + 4));
  for (size_t i = 0; i < elements; ++i) {
    std::string element = "item-" + std::to_string(i);
    element.resize(bytes_length, '.');
    const uint32_t length = static_cast<uint32_t>(element.size());
    data.append(reinterpret_cast<const char*>(&length), sizeof length);
    data += element;
  }
  return data;
}

}  // namespace

Result<InputTensor> MakeInput(std::string_view specification, int index, size_t bytes_length) {
  const size_t first = specification.find(':');
  const size_t second = first == std::string_view::npos ? first : specification.find(':', first + 1);
  if (first == 0 || second == std::string_view::npos) {
    return InvalidArgumentError("an input looks like NAME:DATATYPE:SHAPE, for example INPUT0:FP32:1x4");
  }
  if (bytes_length > kMaxBytesLength) return InvalidArgumentError("elements of BYTES are too long");
  InputTensor tensor;
  tensor.name = specification.substr(0, first);
  tensor.datatype = specification.substr(first + 1, second - first - 1);
  size_t elements = 0;
  BRAID_ASSIGN_OR_RETURN(tensor.shape, ParseShape(specification.substr(second + 1), &elements));
  const size_t width = tensor.datatype == "BYTES" ? bytes_length + 4 : 8;
  if (elements > kMaxTensorBytes / width) return InvalidArgumentError("tensor too large");
  if (tensor.datatype == "FP32") {
    tensor.data = Numbers<float>(elements, index);
  } else if (tensor.datatype == "FP64") {
    tensor.data = Numbers<double>(elements, index);
  } else if (tensor.datatype == "INT32") {
    tensor.data = Numbers<int32_t>(elements, index);
  } else if (tensor.datatype == "INT64") {
    tensor.data = Numbers<int64_t>(elements, index);
  } else if (tensor.datatype == "UINT8") {
    tensor.data = Numbers<uint8_t>(elements, index);
  } else if (tensor.datatype == "BYTES") {
    tensor.data = Strings(elements, bytes_length);
  } else {
    return InvalidArgumentError("datatype " + tensor.datatype +
                                " is not one of FP32, FP64, INT32, INT64, UINT8, BYTES");
  }
  return tensor;
}

}  // namespace braid::bench
