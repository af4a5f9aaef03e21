#include "protocols/json/tensor_data.h"

#include <boost/container/small_vector.hpp>
#include <cstring>
#include <limits>
#include <string>

#include "protocols/json/json.h"

namespace braid {
namespace {

using simdjson::dom::element;
using simdjson::dom::element_type;

constexpr size_t kMaxDepth = 100;
// From this count on, simdjson saturates an array's element count.
constexpr size_t kMostCounted = 0xFFFFFF;

enum class LeafError : unsigned char { kNone, kKind, kCount, kRange };

// Calls `leaf` for each value of nested arrays, in order, until it returns an error. Not recursive.
template <class Leaf>
Status WalkData(element data, JsonForm form, DataType type, std::string_view kind, Leaf&& leaf) {
  using Iterator = simdjson::dom::array::iterator;
  struct Level {
    Iterator next;
    Iterator end;
  };
  const auto failed = [&](LeafError error) {
    switch (error) {
      case LeafError::kNone:
        break;
      case LeafError::kKind:
        return JsonDataError(form, "attempt to access JSON non-" + std::string(kind) + " as " +
                                       (kind == "number" ? "double" : std::string(kind)));
      case LeafError::kCount:
        return JsonCountError(form);
      case LeafError::kRange:
        return JsonDataError(form, "value is out of range for datatype " + std::string(WireName(type)));
    }
    return OkStatus();
  };
  simdjson::dom::array array;
  if (data.get_array().get(array)) {
    if (form == JsonForm::kFlat) return failed(leaf(data));
    return JsonDataError(form, "attempt to access JSON non-array as array");
  }
  boost::container::small_vector<Level, 8> levels;
  levels.push_back({array.begin(), array.end()});
  while (!levels.empty()) {
    Level& level = levels.back();
    if (!(level.next != level.end)) {
      levels.pop_back();
      continue;
    }
    const element value = *level.next;
    ++level.next;
    if (form == JsonForm::kNested && value.type() == element_type::ARRAY) {
      if (levels.size() == kMaxDepth) {
        return InvalidArgumentError("JSON nesting depth exceeds maximum allowed limit (" +
                                    std::to_string(kMaxDepth) + ")");
      }
      array = value.get_array().value_unsafe();
      levels.push_back({array.begin(), array.end()});
      continue;
    }
    const LeafError error = leaf(value);
    if (error != LeafError::kNone) return failed(error);
  }
  return OkStatus();
}

// Writes exactly `count` values of type T to `out`.
template <class T>
Status FillNumbers(element data, JsonForm form, DataType type, size_t count, std::byte* out) {
  constexpr bool kIsBool = std::is_same_v<T, bool>;
  constexpr bool kIsFloat = std::is_floating_point_v<T>;
  constexpr std::string_view kKind = kIsBool               ? "boolean"
                                     : kIsFloat            ? "number"
                                     : std::is_signed_v<T> ? "signed-integer"
                                                           : "unsigned-integer";
  size_t index = 0;
  Status status = WalkData(data, form, type, kKind, [&](element value) {
    if (index == count) return LeafError::kCount;
    T converted{};
    if constexpr (kIsBool) {
      bool flag = false;
      if (value.get_bool().get(flag)) return LeafError::kKind;
      converted = flag;
    } else if constexpr (kIsFloat) {
      double number = 0;
      if (!JsonDouble(value, number)) return LeafError::kKind;
      converted = static_cast<T>(number);
    } else if constexpr (std::is_signed_v<T>) {
      int64_t number = 0;
      if (value.type() == element_type::UINT64) return LeafError::kRange;
      if (value.get_int64().get(number)) return LeafError::kKind;
      if (number < std::numeric_limits<T>::min() || number > std::numeric_limits<T>::max())
        return LeafError::kRange;
      converted = static_cast<T>(number);
    } else {
      uint64_t number = 0;
      if (value.get_uint64().get(number)) return LeafError::kKind;
      if (number > std::numeric_limits<T>::max()) return LeafError::kRange;
      converted = static_cast<T>(number);
    }
    std::memcpy(out + index * sizeof(T), &converted, sizeof(T));
    ++index;
    return LeafError::kNone;
  });
  if (status.ok() && index != count) return JsonCountError(form);
  return status;
}

}  // namespace

Status FillFromJson(element data, JsonForm form, DataType type, size_t count, std::byte* out) {
  switch (type) {
    case DataType::kBool:
      return FillNumbers<bool>(data, form, type, count, out);
    case DataType::kUint8:
      return FillNumbers<uint8_t>(data, form, type, count, out);
    case DataType::kUint16:
      return FillNumbers<uint16_t>(data, form, type, count, out);
    case DataType::kUint32:
      return FillNumbers<uint32_t>(data, form, type, count, out);
    case DataType::kUint64:
      return FillNumbers<uint64_t>(data, form, type, count, out);
    case DataType::kInt8:
      return FillNumbers<int8_t>(data, form, type, count, out);
    case DataType::kInt16:
      return FillNumbers<int16_t>(data, form, type, count, out);
    case DataType::kInt32:
      return FillNumbers<int32_t>(data, form, type, count, out);
    case DataType::kInt64:
      return FillNumbers<int64_t>(data, form, type, count, out);
    case DataType::kFp32:
      return FillNumbers<float>(data, form, type, count, out);
    case DataType::kFp64:
      return FillNumbers<double>(data, form, type, count, out);
    case DataType::kBytes:
      // Elements and sizes were counted before.
      return WalkData(data, form, type, "string", [&](element value) {
        const std::string_view text = value.get_string().value_unsafe();
        const auto length = static_cast<uint32_t>(text.size());
        std::memcpy(out, &length, sizeof(length));
        std::memcpy(out + sizeof(length), text.data(), text.size());
        out += sizeof(length) + text.size();
        return LeafError::kNone;
      });
    case DataType::kInvalid:
    case DataType::kFp16:
    case DataType::kCustom:
    case DataType::kBf16:
      break;
  }
  return JsonDataError(form, "no JSON form");
}

Status MeasureJsonStrings(element data, JsonForm form, size_t count, size_t* bytes) {
  size_t index = 0;
  Status status = WalkData(data, form, DataType::kBytes, "string", [&](element value) {
    if (value.type() != element_type::STRING) return LeafError::kKind;
    if (index++ == count) return LeafError::kCount;
    *bytes += sizeof(uint32_t) + value.get_string_length().value_unsafe();
    return LeafError::kNone;
  });
  if (status.ok() && index != count) return JsonCountError(form);
  return status;
}

size_t CountNestedJsonValues(element data) {
  size_t count = 0;
  // Data that cannot be walked counts only the values before the fault.
  static_cast<void>(WalkData(data, JsonForm::kNested, DataType::kInvalid, "", [&](element) {
    ++count;
    return LeafError::kNone;
  }));
  return count;
}

size_t CountJsonValues(element data) {
  simdjson::dom::array array;
  if (data.get_array().get(array)) return 1;
  if (array.size() < kMostCounted) return array.size();
  size_t count = 0;
  for ([[maybe_unused]] element value : array) ++count;
  return count;
}

Status JsonCountError(JsonForm form) {
  return JsonDataError(form, "Shape does not match true shape of 'data' field");
}

Status JsonDataError(JsonForm form, std::string_view text) {
  return InternalError((form == JsonForm::kNested ? "Unable to parse 'data': " : "") + std::string(text));
}

}  // namespace braid
