#include "protocols/inference/classification.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

namespace braid {
namespace {

// Limits the size of one request's result for any k.
constexpr size_t kMaxElements = size_t{1} << 24;
// Limits the elements of a row, and k.
constexpr size_t kMaxClasses = 1'000'000;

template <class T>
void AppendValue(std::string& out, T value) {
  if constexpr (std::is_floating_point_v<T>) {
    char text[400];  // the longest double has 309 digits before the point
    const int length = std::snprintf(text, sizeof(text), "%f", static_cast<double>(value));
    out.append(text, static_cast<size_t>(std::max(0, length)));
  } else {
    out += std::to_string(value);
  }
}

void AppendElement(std::string& out, std::string_view text) {
  const auto length = static_cast<uint32_t>(text.size());
  out.append(reinterpret_cast<const char*>(&length), sizeof(length));
  out += text;
}

// Appends the k highest values of one row.
template <class T>
void ClassifyRow(const std::byte* row, size_t classes, size_t k, const TensorSpec* spec, std::string& out) {
  if (classes == 0) return;
  std::vector<T> values(classes);
  std::memcpy(values.data(), row, classes * sizeof(T));
  std::vector<size_t> order(classes);
  std::iota(order.begin(), order.end(), size_t{0});
  // Equal values keep their order. NaN, which compares with no value, comes last.
  const auto before = [&values](size_t a, size_t b) {
    if constexpr (std::is_floating_point_v<T>) {
      const bool nan_a = std::isnan(values[a]);
      const bool nan_b = std::isnan(values[b]);
      if (nan_a || nan_b) return nan_a == nan_b ? a < b : nan_b;
    }
    return values[a] != values[b] ? values[a] > values[b] : a < b;
  };
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k), order.end(), before);
  std::string text;
  for (size_t i = 0; i < k; ++i) {
    const size_t index = order[i];
    text.clear();
    AppendValue(text, values[index]);
    text += ':';
    text += std::to_string(index);
    if (spec != nullptr && index < spec->labels.size()) {
      text += ':';
      text += spec->labels[index];
    }
    AppendElement(out, text);
  }
}

using RowFunction = void (*)(const std::byte*, size_t, size_t, const TensorSpec*, std::string&);

RowFunction RowFunctionOf(DataType type) {
  switch (type) {
    case DataType::kUint8:
      return ClassifyRow<uint8_t>;
    case DataType::kUint16:
      return ClassifyRow<uint16_t>;
    case DataType::kUint32:
      return ClassifyRow<uint32_t>;
    case DataType::kUint64:
      return ClassifyRow<uint64_t>;
    case DataType::kInt8:
      return ClassifyRow<int8_t>;
    case DataType::kInt16:
      return ClassifyRow<int16_t>;
    case DataType::kInt32:
      return ClassifyRow<int32_t>;
    case DataType::kInt64:
      return ClassifyRow<int64_t>;
    case DataType::kFp32:
      return ClassifyRow<float>;
    case DataType::kFp64:
      return ClassifyRow<double>;
    case DataType::kInvalid:
    case DataType::kBool:
    case DataType::kBytes:
    case DataType::kFp16:
    case DataType::kCustom:
    case DataType::kBf16:
      return nullptr;
  }
  return nullptr;
}

}  // namespace

Result<Tensor> Classify(const Tensor& output, uint32_t k, bool batching, const TensorSpec* spec) {
  const RowFunction classify_row = RowFunctionOf(output.type);
  if (classify_row == nullptr) {
    return InvalidArgumentError("class result not available for output due to unsupported type '" +
                                std::string(TypeName(output)) + "'");
  }
  const auto bytes = ByteSize(output.type, output.shape);
  if (!bytes || *bytes != output.data.size()) {
    return InternalError("output '" + output.name + "' has " + std::to_string(output.data.size()) +
                         " bytes, which do not fit its shape " + ShapeToString(output.shape));
  }
  const bool has_batch = batching && !output.shape.empty();
  const size_t rows = has_batch ? static_cast<size_t>(output.shape[0]) : 1;
  const size_t elements = *bytes / ElementSize(output.type);
  const size_t classes = rows > 0 ? elements / rows : 0;
  if (elements > kMaxElements || rows > kMaxElements || classes > kMaxClasses || k > kMaxClasses) {
    return InvalidArgumentError("classification output tensor too large");
  }
  const size_t count = std::min<size_t>(k, classes);

  std::string text;
  for (size_t row = 0; row < rows; ++row) {
    classify_row(output.data.data() + row * classes * ElementSize(output.type), classes, count, spec, text);
  }
  Tensor result;
  result.name = output.name;
  result.type = DataType::kBytes;
  if (has_batch) result.shape.push_back(output.shape[0]);
  result.shape.push_back(static_cast<int64_t>(count));
  result.data = CopyToHeap(std::as_bytes(std::span(text.data(), text.size())));
  return result;
}

}  // namespace braid
