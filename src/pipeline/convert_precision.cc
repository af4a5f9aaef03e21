#include "pipeline/convert_precision.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace braid {
namespace {

// The 16-bit floats as they lie in memory.
struct Fp16 {
  uint16_t bits;
};
struct Bf16 {
  uint16_t bits;
};
struct Bool {
  uint8_t value;
};

float ToFloat(Bf16 value) { return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16); }

float ToFloat(Fp16 value) {
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000u) << 16;
  const uint32_t exponent = (value.bits >> 10) & 0x1fu;
  const uint32_t fraction = value.bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
  if (exponent == 0) {
    const float small = std::ldexp(static_cast<float>(fraction), -24);
    return sign != 0 ? -small : small;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
}

// Rounded to the nearest, ties to even.
Bf16 ToBf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

Fp16 ToFp16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const float size = std::fabs(value);
  if (std::isnan(value)) return {static_cast<uint16_t>(sign | 0x7e00u)};
  if (size >= 65520.0f) return {static_cast<uint16_t>(sign | 0x7c00u)};
  // Below the normal numbers, their distance is that of the smallest.
  if (size < 6.103515625e-05f) {
    return {static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(std::ldexp(size, 24))))};
  }
  const uint32_t unsigned_bits = bits & 0x7fffffffu;
  const uint32_t rounded = unsigned_bits + 0xfffu + ((unsigned_bits >> 13) & 1u);
  return {static_cast<uint16_t>(sign | ((rounded - (112u << 23)) >> 13))};
}

// The nearest number that the integer `To` can hold.
template <class To>
To ToInteger(auto value) {
  if constexpr (std::is_integral_v<decltype(value)>) {
    if (std::cmp_less(value, std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    if (std::cmp_greater(value, std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
    return static_cast<To>(value);
  } else {
    if (std::isnan(value)) return 0;
    // The bounds as floats: the lower is exact, one above the upper too.
    const auto lowest = static_cast<double>(std::numeric_limits<To>::min());
    const double beyond = std::ldexp(1.0, std::numeric_limits<To>::digits);
    const double whole = std::trunc(static_cast<double>(value));
    if (whole < lowest) return std::numeric_limits<To>::min();
    if (whole >= beyond) return std::numeric_limits<To>::max();
    return static_cast<To>(whole);
  }
}

template <class To>
To FromNumber(auto value) {
  if constexpr (std::is_integral_v<To>) {
    return ToInteger<To>(value);
  } else if constexpr (std::is_same_v<To, Fp16>) {
    return ToFp16(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, Bf16>) {
    return ToBf16(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, Bool>) {
    return {static_cast<uint8_t>(value != decltype(value){0})};
  } else {
    return static_cast<To>(value);
  }
}

template <class From, class To>
To Convert(From value) {
  if constexpr (std::is_same_v<From, Fp16> || std::is_same_v<From, Bf16>) {
    return FromNumber<To>(ToFloat(value));
  } else if constexpr (std::is_same_v<From, Bool>) {
    return FromNumber<To>(static_cast<uint8_t>(value.value != 0));
  } else {
    return FromNumber<To>(value);
  }
}

// Calls `f` with a value of the C++ type that lies in tensors of `type`; false when there is none.
template <class F>
bool WithType(DataType type, const F& f) {
  switch (type) {
    case DataType::kBool:
      return f(Bool{}), true;
    case DataType::kUint8:
      return f(uint8_t{}), true;
    case DataType::kUint16:
      return f(uint16_t{}), true;
    case DataType::kUint32:
      return f(uint32_t{}), true;
    case DataType::kUint64:
      return f(uint64_t{}), true;
    case DataType::kInt8:
      return f(int8_t{}), true;
    case DataType::kInt16:
      return f(int16_t{}), true;
    case DataType::kInt32:
      return f(int32_t{}), true;
    case DataType::kInt64:
      return f(int64_t{}), true;
    case DataType::kFp16:
      return f(Fp16{}), true;
    case DataType::kFp32:
      return f(float{}), true;
    case DataType::kFp64:
      return f(double{}), true;
    case DataType::kBf16:
      return f(Bf16{}), true;
    case DataType::kInvalid:
    case DataType::kCustom:
    case DataType::kBytes:
      return false;
  }
  return false;
}

template <class From, class To>
void ConvertAll(const std::byte* from, std::byte* to, size_t count) {
  // Tensors of clients need not be aligned.
  for (size_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, from + i * sizeof(From), sizeof(From));
    const To converted = Convert<From, To>(value);
    std::memcpy(to + i * sizeof(To), &converted, sizeof(To));
  }
}

}  // namespace

bool CanConvert(DataType from, DataType to) {
  const auto none = [](auto) {};
  return WithType(from, none) && WithType(to, none);
}

Result<Tensor> ConvertPrecision(const Tensor& tensor, DataType to, BufferAllocator& allocator) {
  const auto from_size = ByteSize(tensor.type, tensor.shape);
  const auto to_size = ByteSize(to, tensor.shape);
  if (!CanConvert(tensor.type, to) || !from_size || !to_size || *from_size != tensor.data.size()) {
    return InvalidArgumentError("tensor '" + tensor.name + "' of type " + std::string(WireName(tensor.type)) +
                                ", shape " + ShapeToString(tensor.shape) + " and " +
                                std::to_string(tensor.data.size()) + " bytes cannot be converted to " +
                                std::string(WireName(to)));
  }
  Tensor converted;
  converted.name = tensor.name;
  converted.type = to;
  converted.shape = tensor.shape;
  BRAID_ASSIGN_OR_RETURN(converted.data, allocator.Allocate(*to_size));
  WithType(tensor.type, [&](auto from) {
    WithType(to, [&](auto into) {
      ConvertAll<decltype(from), decltype(into)>(tensor.data.data(), converted.data.mutable_data(),
                                                 *to_size / sizeof(into));
    });
  });
  return converted;
}

Status ConvertInputs(const Precisions& precisions, std::vector<Tensor>& inputs, BufferAllocator& allocator) {
  for (Tensor& input : inputs) {
    for (const auto& [name, precision] : precisions) {
      if (name != input.name || precision == input.type) continue;
      BRAID_ASSIGN_OR_RETURN(input, ConvertPrecision(input, precision, allocator));
    }
  }
  return OkStatus();
}

}  // namespace braid
