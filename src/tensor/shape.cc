#include "tensor/shape.h"

namespace braid {

std::optional<int64_t> ElementCount(const Shape& shape) {
  // With a zero dimension the tensor is empty, so only the product of the other dimensions can overflow.
  int64_t count = 1;
  bool empty = false;
  for (int64_t dim : shape) {
    if (dim < 0) return std::nullopt;
    if (dim == 0) empty = true;
  }
  if (empty) return 0;
  for (int64_t dim : shape) {
    if (__builtin_mul_overflow(count, dim, &count)) return std::nullopt;
  }
  return count;
}

std::optional<size_t> ByteSize(DataType type, const Shape& shape) {
  const size_t element = ElementSize(type);
  if (element == 0) return std::nullopt;
  const auto count = ElementCount(shape);
  if (!count) return std::nullopt;
  int64_t bytes = 0;
  if (__builtin_mul_overflow(*count, static_cast<int64_t>(element), &bytes)) return std::nullopt;
  return static_cast<size_t>(bytes);
}

std::string ShapeToString(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i != 0) text += ',';
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

bool ShapeMatches(const Shape& expected, const Shape& actual) {
  if (expected.size() != actual.size()) return false;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] != -1 && expected[i] != actual[i]) return false;
  }
  return true;
}

bool FitShape(Shape& shape, size_t count, bool batching) {
  if (batching && !shape.empty()) shape[0] = 1;
  int64_t* variable = nullptr;
  int64_t fixed = 1;
  for (int64_t& dim : shape) {
    if (dim < 0) {
      if (variable != nullptr) *variable = 1;
      variable = &dim;
    } else if (__builtin_mul_overflow(fixed, dim, &fixed)) {
      return false;
    }
  }
  const auto values = static_cast<int64_t>(count);
  if (variable == nullptr) return values == fixed;
  if (fixed == 0 || values % fixed != 0) return false;
  *variable = values / fixed;
  return true;
}

}  // namespace braid
