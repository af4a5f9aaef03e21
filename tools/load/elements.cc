#include "load/elements.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <type_traits>

#include "base/json.h"

namespace braid::load {
namespace {

constexpr size_t kMaxElements = size_t{1} << 32;

// Element types without a C++ type.
struct Half {
  uint16_t bits;
  static Half Of(float value) { return {ToHalf(value)}; }
  float value() const { return FromHalf(bits); }
};

struct Bfloat {
  uint16_t bits;
  static Bfloat Of(float value) {
    uint32_t whole;
    std::memcpy(&whole, &value, sizeof whole);
    if (std::isnan(value)) return {static_cast<uint16_t>((whole >> 16) | 0x40)};
    return {static_cast<uint16_t>((whole + 0x7fff + ((whole >> 16) & 1)) >> 16)};
  }
  float value() const {
    const uint32_t whole = uint32_t{bits} << 16;
    float value;
    std::memcpy(&value, &whole, sizeof value);
    return value;
  }
};

template <class T>
constexpr bool kIsShort = std::is_same_v<T, Half> || std::is_same_v<T, Bfloat>;

// Calls work(T()) with the C++ type of a numeric datatype; returns false for others.
template <class Work>
bool WithType(std::string_view datatype, Work&& work) {
  if (datatype == "FP32") return work(float{}), true;
  if (datatype == "FP64") return work(double{}), true;
  if (datatype == "FP16") return work(Half{}), true;
  if (datatype == "BF16") return work(Bfloat{}), true;
  if (datatype == "BOOL") return work(bool{}), true;
  if (datatype == "INT8") return work(int8_t{}), true;
  if (datatype == "INT16") return work(int16_t{}), true;
  if (datatype == "INT32") return work(int32_t{}), true;
  if (datatype == "INT64") return work(int64_t{}), true;
  if (datatype == "UINT8") return work(uint8_t{}), true;
  if (datatype == "UINT16") return work(uint16_t{}), true;
  if (datatype == "UINT32") return work(uint32_t{}), true;
  if (datatype == "UINT64") return work(uint64_t{}), true;
  return false;
}

template <class T>
void Append(T value, std::string& data) {
  data.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
T RandomValue(std::mt19937_64& random) {
  if constexpr (std::is_same_v<T, bool>) {
    return (random() & 1) != 0;
  } else if constexpr (kIsShort<T>) {
    return T::Of(static_cast<float>(random() >> 40) / static_cast<float>(1 << 24));
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(static_cast<double>(random() >> 40) / static_cast<double>(1 << 24));
  } else {
    return static_cast<T>(random() % 100);
  }
}

std::string RandomText(size_t length, std::mt19937_64& random) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  std::string text(length, '\0');
  for (char& letter : text) letter = kLetters[random() % kLetters.size()];
  return text;
}

template <class T>
Status AppendNumber(const Json& value, std::string_view datatype, std::string& data) {
  const auto refuse = [&] {
    return InvalidArgumentError(DumpJson(value) + " is not a value of " + std::string(datatype));
  };
  if constexpr (std::is_same_v<T, bool>) {
    if (value.is_boolean()) return Append(value.get<bool>(), data), OkStatus();
    if (!value.is_number_integer() || (value != 0 && value != 1)) return refuse();
    Append(value == 1, data);
  } else if constexpr (kIsShort<T> || std::is_floating_point_v<T>) {
    if (!value.is_number()) return refuse();
    if constexpr (kIsShort<T>) {
      Append(T::Of(value.get<float>()), data);
    } else {
      Append(value.get<T>(), data);
    }
  } else {
    if (value.is_boolean()) return Append(static_cast<T>(value.get<bool>()), data), OkStatus();
    if (value.is_number_unsigned()) {
      if (value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<T>::max())) return refuse();
    } else if (value.is_number_integer()) {
      const auto whole = value.get<int64_t>();
      if constexpr (std::is_unsigned_v<T>) return refuse();
      if (whole < static_cast<int64_t>(std::numeric_limits<T>::min())) return refuse();
    } else {
      return refuse();
    }
    Append(value.get<T>(), data);
  }
  return OkStatus();
}

template <class T>
void AppendText(T value, std::string& text) {
  if constexpr (std::is_same_v<T, bool>) {
    text += value ? "true" : "false";
  } else if constexpr (kIsShort<T>) {
    AppendText(value.value(), text);
  } else {
    if constexpr (std::is_floating_point_v<T>) {
      // JSON has no NaN and no infinity.
      if (!std::isfinite(value)) {
        text += std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
        return;
      }
    }
    char digits[64];
    const auto end = std::to_chars(digits, digits + sizeof digits, value);
    text.append(digits, end.ptr);
  }
}

}  // namespace

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ",") + std::to_string(shape[i]);
  return text + "]";
}

uint16_t ToHalf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7e00;
  if (magnitude >= 65520.0F) return sign | 0x7c00;
  if (magnitude == 0) return sign;
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  // The weight of the last bit: 2^-24 for subnormal ones.
  const int last = std::max(exponent - 11, -24);
  const auto units = static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, -last)));
  // Values of 2^10 units and more carry into the exponent.
  return static_cast<uint16_t>(sign + ((last + 24) << 10) + units);
}

float FromHalf(uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const int fraction = half & 1023;
  float value;
  if (exponent == 31) {
    value = fraction == 0 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(fraction), -24);
  } else {
    value = std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  }
  return (half & 0x8000) != 0 ? -value : value;
}

Result<size_t> ElementBytes(std::string_view datatype) {
  if (datatype == "BYTES") return size_t{0};
  size_t size = 0;
  if (WithType(datatype, [&](auto value) { size = sizeof value; })) return size;
  return InvalidArgumentError("'" + std::string(datatype) + "' is not a datatype of KServe v2");
}

std::string GuessDatatype(const Json& value) {
  if (!value.is_array()) {
    if (value.is_boolean()) return "BOOL";
    return value.is_number_integer() ? "INT64" : value.is_number() ? "FP32" : "BYTES";
  }
  // The widest type of the elements wins: each one can hold the types before it.
  static constexpr std::string_view kNarrowToWide[] = {"BOOL", "INT64", "FP32", "BYTES"};
  size_t widest = 0;
  for (const Json& element : value) {
    const auto found = std::ranges::find(kNarrowToWide, GuessDatatype(element));
    widest = std::max(widest, static_cast<size_t>(found - std::begin(kNarrowToWide)));
  }
  return value.empty() ? "FP32" : std::string(kNarrowToWide[widest]);
}

Result<size_t> ElementCount(const std::vector<int64_t>& shape) {
  size_t count = 1;
  for (const int64_t dimension : shape) {
    if (dimension < 0)
      return InvalidArgumentError("the shape " + ShapeText(shape) + " has an open dimension");
    if (dimension != 0 && count > kMaxElements / static_cast<size_t>(dimension)) {
      return InvalidArgumentError("the shape " + ShapeText(shape) + " is too large");
    }
    count *= static_cast<size_t>(dimension);
  }
  return count;
}

void AppendBytesElement(std::string_view element, std::string& data) {
  Append(static_cast<uint32_t>(element.size()), data);
  data += element;
}

Result<std::string> MakeElements(std::string_view datatype, const std::vector<int64_t>& shape,
                                 const FillOptions& options, std::mt19937_64& random) {
  BRAID_ASSIGN_OR_RETURN(const size_t width, ElementBytes(datatype));
  BRAID_ASSIGN_OR_RETURN(const size_t count, ElementCount(shape));
  std::string data;
  if (datatype == "BYTES") {
    for (size_t i = 0; i < count; ++i) {
      if (!options.string_data.empty()) {
        AppendBytesElement(options.string_data, data);
      } else {
        AppendBytesElement(options.fill == Fill::kZero ? "" : RandomText(options.string_length, random),
                           data);
      }
    }
  } else if (options.fill == Fill::kZero) {
    data.resize(count * width);
  } else {
    data.reserve(count * width);
    WithType(datatype, [&](auto type) {
      for (size_t i = 0; i < count; ++i) Append(RandomValue<decltype(type)>(random), data);
    });
  }
  return data;
}

Status AppendJsonElements(const Json& value, std::string_view datatype, std::string& data) {
  if (value.is_array()) {
    for (const Json& element : value) BRAID_RETURN_IF_ERROR(AppendJsonElements(element, datatype, data));
    return OkStatus();
  }
  if (datatype == "BYTES") {
    // A number in a data file stands for its text.
    AppendBytesElement(value.is_string() ? value.get<std::string>() : DumpJson(value), data);
    return OkStatus();
  }
  Status status;
  if (WithType(datatype, [&](auto type) { status = AppendNumber<decltype(type)>(value, datatype, data); })) {
    return status;
  }
  return InvalidArgumentError("'" + std::string(datatype) + "' is not a datatype of KServe v2");
}

void VisitElements(std::string_view datatype, std::string_view data, size_t most,
                   const std::function<void(size_t, const std::string&)>& visit) {
  if (datatype == "BYTES") {
    for (size_t i = 0; i < most && data.size() >= 4; ++i) {
      uint32_t length;
      std::memcpy(&length, data.data(), sizeof length);
      if (length > data.size() - 4) return;
      visit(i, DumpJson(Json(data.substr(4, length))));
      data.remove_prefix(4 + size_t{length});
    }
    return;
  }
  WithType(datatype, [&](auto value) {
    for (size_t i = 0; i < most && (i + 1) * sizeof value <= data.size(); ++i) {
      std::memcpy(&value, data.data() + i * sizeof value, sizeof value);
      std::string text;
      AppendText(value, text);
      visit(i, text);
    }
  });
}

std::string JsonElements(std::string_view datatype, std::string_view data) {
  std::string list = "[";
  VisitElements(datatype, data, std::numeric_limits<size_t>::max(), [&](size_t i, const std::string& text) {
    if (i != 0) list += ',';
    list += text;
  });
  return list + "]";
}

}  // namespace braid::load
