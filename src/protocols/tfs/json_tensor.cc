#include "protocols/tfs/json_tensor.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "protocols/json/json.h"
#include "protocols/json/tensor_data.h"
#include "tensor/half_float.h"

namespace braid {
namespace {

using simdjson::dom::element;
using simdjson::dom::element_type;

constexpr size_t kMaxRank = 64;

enum class Flaw : unsigned char { kNone, kRagged, kKind, kRange, kBase64, kTooLong };

std::string FlawText(Flaw fault, DataType type) {
  switch (fault) {
    case Flaw::kNone:
      return "";
    case Flaw::kRagged:
      return "arrays of one dimension differ in length";
    case Flaw::kKind:
      return "value does not fit " + std::string(WireName(type));
    case Flaw::kRange:
      return "value is out of range for " + std::string(WireName(type));
    case Flaw::kBase64:
      return "invalid base64";
    case Flaw::kTooLong:
      return "string is too long";
  }
  return "";
}

// Calls `leaf` for each value below `root`, in order. Checks that arrays have the sizes of `shape`, without
// further nesting. Not recursive, since the client chooses the depth.
template <class Leaf>
Flaw Walk(element root, std::span<const int64_t> shape, Leaf&& leaf) {
  if (shape.empty()) return root.type() == element_type::ARRAY ? Flaw::kRagged : leaf(root);
  struct Level {
    simdjson::dom::array::iterator next;
    simdjson::dom::array::iterator end;
    int64_t left;
  };
  boost::container::small_vector<Level, 8> levels;
  const auto enter = [&](element value) {
    simdjson::dom::array array;
    if (value.get_array().get(array)) return false;
    levels.push_back({array.begin(), array.end(), shape[levels.size()]});
    return true;
  };
  if (!enter(root)) return Flaw::kRagged;
  while (!levels.empty()) {
    Level& level = levels.back();
    if (!(level.next != level.end)) {
      if (level.left != 0) return Flaw::kRagged;
      levels.pop_back();
      continue;
    }
    if (level.left-- == 0) return Flaw::kRagged;
    const element value = *level.next;
    ++level.next;
    if (levels.size() < shape.size()) {
      if (!enter(value)) return Flaw::kRagged;
    } else {
      if (value.type() == element_type::ARRAY) return Flaw::kRagged;
      if (const Flaw fault = leaf(value); fault != Flaw::kNone) return fault;
    }
  }
  return Flaw::kNone;
}

template <class T>
Flaw ToInteger(element value, T& to) {
  constexpr auto kMin = std::numeric_limits<T>::min();
  constexpr auto kMax = std::numeric_limits<T>::max();
  switch (value.type()) {
    case element_type::INT64: {
      const int64_t number = value.get_int64().value_unsafe();
      if (!std::in_range<T>(number)) return Flaw::kRange;
      to = static_cast<T>(number);
      return Flaw::kNone;
    }
    case element_type::UINT64: {
      const uint64_t number = value.get_uint64().value_unsafe();
      if (!std::in_range<T>(number)) return Flaw::kRange;
      to = static_cast<T>(number);
      return Flaw::kNone;
    }
    case element_type::DOUBLE: {
      const double number = std::trunc(value.get_double().value_unsafe());
      // The bounds as doubles: 2^63 and 2^64 are the first values out of range.
      if (number < static_cast<double>(kMin) || number >= std::ldexp(1.0, std::numeric_limits<T>::digits)) {
        return Flaw::kRange;
      }
      static_assert(kMax > 0);
      to = static_cast<T>(number);
      return Flaw::kNone;
    }
    default:
      return Flaw::kKind;
  }
}

Flaw ToDouble(element value, double& to) { return value.get_double().get(to) ? Flaw::kKind : Flaw::kNone; }

Flaw ToFloat(element value, float& to) {
  double number = 0;
  if (const Flaw fault = ToDouble(value, number); fault != Flaw::kNone) return fault;
  to = static_cast<float>(number);
  return std::isinf(to) ? Flaw::kRange : Flaw::kNone;
}

Flaw ToBool(element value, bool& to) {
  if (!value.get_bool().get(to)) return Flaw::kNone;
  double number = 0;
  if (value.get_double().get(number)) return Flaw::kKind;
  to = number != 0;
  return Flaw::kNone;
}

Flaw ToHalf(element value, uint16_t& to) {
  float number = 0;
  if (const Flaw fault = ToFloat(value, number); fault != Flaw::kNone) return fault;
  to = HalfFromFloat(number);
  return (to & 0x7fff) == 0x7c00 ? Flaw::kRange : Flaw::kNone;
}

Flaw ToBf16(element value, uint16_t& to) {
  float number = 0;
  if (const Flaw fault = ToFloat(value, number); fault != Flaw::kNone) return fault;
  to = Bf16FromFloat(number);
  return (to & 0x7fff) == 0x7f80 ? Flaw::kRange : Flaw::kNone;
}

// Writes all values of the source as T, consecutively.
template <class T, Flaw (*Convert)(element, T&)>
Flaw Fill(const JsonTensorSource& source, std::span<const int64_t> shape, std::byte* to) {
  for (element value : source.values) {
    const Flaw fault = Walk(value, shape, [&](element number) {
      T converted{};
      const Flaw failed = Convert(number, converted);
      std::memcpy(to, &converted, sizeof(T));
      to += sizeof(T);
      return failed;
    });
    if (fault != Flaw::kNone) return fault;
  }
  return Flaw::kNone;
}

Flaw FillNumbers(const JsonTensorSource& source, DataType type, std::span<const int64_t> shape,
                 std::byte* to) {
  switch (type) {
    case DataType::kBool:
      return Fill<bool, ToBool>(source, shape, to);
    case DataType::kUint8:
      return Fill<uint8_t, ToInteger<uint8_t>>(source, shape, to);
    case DataType::kUint16:
      return Fill<uint16_t, ToInteger<uint16_t>>(source, shape, to);
    case DataType::kUint32:
      return Fill<uint32_t, ToInteger<uint32_t>>(source, shape, to);
    case DataType::kUint64:
      return Fill<uint64_t, ToInteger<uint64_t>>(source, shape, to);
    case DataType::kInt8:
      return Fill<int8_t, ToInteger<int8_t>>(source, shape, to);
    case DataType::kInt16:
      return Fill<int16_t, ToInteger<int16_t>>(source, shape, to);
    case DataType::kInt32:
      return Fill<int32_t, ToInteger<int32_t>>(source, shape, to);
    case DataType::kInt64:
      return Fill<int64_t, ToInteger<int64_t>>(source, shape, to);
    case DataType::kFp16:
      return Fill<uint16_t, ToHalf>(source, shape, to);
    case DataType::kBf16:
      return Fill<uint16_t, ToBf16>(source, shape, to);
    case DataType::kFp32:
      return Fill<float, ToFloat>(source, shape, to);
    case DataType::kFp64:
      return Fill<double, ToDouble>(source, shape, to);
    case DataType::kCustom:
    case DataType::kBytes:
    case DataType::kInvalid:
      break;
  }
  return Flaw::kKind;
}

// Returns the base64 text of such an object. REQUIRES: IsBase64Object(value).
std::optional<std::string_view> Base64Text(element value) {
  std::string_view text;
  const auto object = value.get_object().value_unsafe();
  if ((*object.begin()).value.get_string().get(text)) return std::nullopt;
  return text;
}

size_t DecodedSize(std::string_view text) {
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  return text.size() / 4 * 3 - (text.empty() ? 0 : padding);
}

Flaw MeasureStrings(const JsonTensorSource& source, std::span<const int64_t> shape, size_t& bytes) {
  for (element value : source.values) {
    const Flaw fault = Walk(value, shape, [&](element item) {
      std::string_view text;
      size_t size = 0;
      if (!item.get_string().get(text)) {
        size = text.size();
      } else if (IsBase64Object(item)) {
        const auto encoded = Base64Text(item);
        if (!encoded || encoded->size() % 4 != 0) return Flaw::kBase64;
        size = DecodedSize(*encoded);
      } else {
        return Flaw::kKind;
      }
      if (size > std::numeric_limits<uint32_t>::max()) return Flaw::kTooLong;
      bytes += sizeof(uint32_t) + size;
      return Flaw::kNone;
    });
    if (fault != Flaw::kNone) return fault;
  }
  return Flaw::kNone;
}

// REQUIRES: MeasureStrings() was called.
Flaw FillStrings(const JsonTensorSource& source, std::span<const int64_t> shape, std::byte* to) {
  const auto put = [&to](std::string_view text) {
    const auto length = static_cast<uint32_t>(text.size());
    std::memcpy(to, &length, sizeof(length));
    std::memcpy(to + sizeof(length), text.data(), text.size());
    to += sizeof(length) + text.size();
  };
  for (element value : source.values) {
    const Flaw fault = Walk(value, shape, [&](element item) {
      std::string_view text;
      if (!item.get_string().get(text)) {
        put(text);
        return Flaw::kNone;
      }
      const auto decoded = DecodeBase64(*Base64Text(item));
      if (!decoded) return Flaw::kBase64;
      put(*decoded);
      return Flaw::kNone;
    });
    if (fault != Flaw::kNone) return fault;
  }
  return Flaw::kNone;
}

// Returns the type for a tensor whose type follows from its first value.
DataType TypeOf(element leaf) {
  switch (leaf.type()) {
    case element_type::BOOL:
      return DataType::kBool;
    case element_type::INT64:
    case element_type::UINT64:
      return DataType::kInt64;
    case element_type::STRING:
    case element_type::OBJECT:
      return DataType::kBytes;
    default:
      return DataType::kFp32;
  }
}

}  // namespace

bool IsBase64Object(element value) {
  simdjson::dom::object object;
  if (value.get_object().get(object) || object.size() != 1) return false;
  return (*object.begin()).key == "b64";
}

Status ReadJsonTensor(const JsonTensorSource& source, JsonTensorType wanted, size_t json_bytes, Fault fault,
                      BufferAllocator& allocator, Tensor& tensor) {
  const auto failed = [&](std::string_view text) {
    return FaultError(fault, std::string(text) + "; input name: " + tensor.name);
  };
  // The first value determines depth and lengths of the arrays; all others must match.
  Shape shape;
  if (source.rows) shape.push_back(static_cast<int64_t>(source.values.size()));
  const size_t outer = shape.size();
  std::optional<element> leaf;
  if (!source.values.empty()) leaf = source.values.front();
  simdjson::dom::array array;
  while (leaf && !leaf->get_array().get(array)) {
    if (shape.size() == kMaxRank) return failed("more than " + std::to_string(kMaxRank) + " dimensions");
    const size_t size = CountJsonValues(*leaf);
    shape.push_back(static_cast<int64_t>(size));
    leaf = size > 0 ? std::optional<element>(*array.begin()) : std::nullopt;
  }
  tensor.type = wanted.type;
  if (wanted.type == DataType::kInvalid) {
    tensor.type = leaf ? TypeOf(*leaf) : DataType::kFp32;
  } else if (wanted.images && leaf && (leaf->type() == element_type::STRING || IsBase64Object(*leaf))) {
    tensor.type = DataType::kBytes;
  }
  // Each value needs at least one character, so an impossible count allocates no memory.
  const std::optional<int64_t> count = ElementCount(shape);
  if (!count || static_cast<uint64_t>(*count) > json_bytes) {
    return failed(FlawText(Flaw::kRagged, tensor.type));
  }
  const std::span<const int64_t> inner(shape.data() + outer, shape.size() - outer);
  size_t bytes = static_cast<size_t>(*count) * ElementSize(tensor.type);
  if (tensor.type == DataType::kBytes) {
    const Flaw found = MeasureStrings(source, inner, bytes);
    if (found != Flaw::kNone) return failed(FlawText(found, tensor.type));
  }
  BRAID_ASSIGN_OR_RETURN(tensor.data, allocator.Allocate(bytes));
  std::byte* const to = tensor.data.mutable_data();
  const Flaw found = tensor.type == DataType::kBytes ? FillStrings(source, inner, to)
                                                     : FillNumbers(source, tensor.type, inner, to);
  if (found != Flaw::kNone) return failed(FlawText(found, tensor.type));
  tensor.shape = std::move(shape);
  return OkStatus();
}

}  // namespace braid
