#include "config/ovms_values.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

namespace braid {
namespace {

constexpr size_t kMostDimensions = 64;
constexpr size_t kMostNumbers = 4096;

Status NoSuch(std::string_view what, std::string_view text, std::string_view how) {
  std::string message = "invalid ";
  message.append(what).append(" '").append(text.substr(0, 200)).append("'; expected ").append(how);
  return InvalidArgumentError(std::move(message));
}

std::string WithoutBlanks(std::string_view text) {
  std::string result;
  std::copy_if(text.begin(), text.end(), std::back_inserter(result),
               [](unsigned char c) { return std::isspace(c) == 0; });
  return result;
}

std::string Capitals(std::string_view text) {
  std::string result = WithoutBlanks(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return result;
}

// Removes one pair of brackets, if there is one.
std::string_view Inside(std::string_view text, char open, char close) {
  if (text.size() < 2 || text.front() != open || text.back() != close) return text;
  return text.substr(1, text.size() - 2);
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

template <class Number>
std::optional<Number> ParseNumber(std::string_view text) {
  Number number = 0;
  const auto [stop, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return number;
}

// "4", "-1", "1:8".
std::optional<DimensionRange> ParseDimension(std::string_view text) {
  if (text == "-1") return DimensionRange{0, -1};
  const auto parts = Split(text, ':');
  if (parts.size() > 2) return std::nullopt;
  const auto min = ParseNumber<int64_t>(parts.front());
  const auto max = ParseNumber<int64_t>(parts.back());
  if (!min || !max || *min < 1 || *max < *min) return std::nullopt;
  return DimensionRange{*min, *max};
}

}  // namespace

Result<OvmsShape> ParseOvmsShape(std::string_view text) {
  constexpr std::string_view how = "\"auto\" or sizes, such as \"(1,3,-1,200:400)\"";
  const std::string plain = WithoutBlanks(text);
  OvmsShape shape;
  if (plain == "auto") {
    shape.automatic = true;
    return shape;
  }
  if (plain == "()") return shape;
  if (plain.starts_with('(') != plain.ends_with(')')) return NoSuch("shape", text, how);
  for (const std::string_view part : Split(Inside(plain, '(', ')'), ',')) {
    const auto dimension = ParseDimension(part);
    if (!dimension || shape.dimensions.size() >= kMostDimensions) return NoSuch("shape", text, how);
    shape.dimensions.push_back(*dimension);
  }
  return shape;
}

Result<OvmsBatchSize> ParseOvmsBatchSize(std::string_view text) {
  const std::string plain = WithoutBlanks(text);
  OvmsBatchSize size;
  if (plain == "auto") {
    size.automatic = true;
    return size;
  }
  const auto dimension = ParseDimension(plain);
  if (!dimension)
    return NoSuch("batch size", text, "\"auto\", \"-1\", a number >= 1, or a range such as \"1:8\"");
  size.size = *dimension;
  return size;
}

Result<OvmsLayout> ParseOvmsLayout(std::string_view text) {
  const std::string plain = Capitals(text);
  const auto parts = Split(plain, ':');
  const auto valid = [](std::string_view part) {
    std::set<char> letters;
    bool rest = false;
    for (size_t i = 0; i < part.size(); ++i) {
      if (part.substr(i).starts_with("...")) {
        if (std::exchange(rest, true)) return false;
        i += 2;
      } else if (part[i] != '?' && (part[i] < 'A' || part[i] > 'Z' || !letters.insert(part[i]).second)) {
        return false;
      }
    }
    return !part.empty() && part.size() <= kMostDimensions;
  };
  if (parts.size() > 2 || !std::all_of(parts.begin(), parts.end(), valid)) {
    return NoSuch("layout", text,
                  "one letter for each dimension, such as \"NHWC\", \"N...\" or \"NHWC:NCHW\"");
  }
  return OvmsLayout{std::string(parts.front()),
                    parts.size() == 2 ? std::string(parts.back()) : std::string()};
}

Result<std::string> ParseOvmsPrecision(std::string_view text) {
  static const std::set<std::string_view> known = {
      "FP64", "FP32",   "FP16",   "BF16",   "F64",   "F32",  "F16",     "I64",   "I32",
      "I16",  "I8",     "U64",    "U32",    "U16",   "U8",   "INT64",   "INT32", "INT16",
      "INT8", "UINT64", "UINT32", "UINT16", "UINT8", "BOOL", "BOOLEAN", "BYTES", "STRING"};
  std::string plain = Capitals(text);
  if (!known.contains(plain))
    return NoSuch("precision", text, "FP32, FP16, U8, I64 or another OpenVINO precision");
  return plain;
}

Result<std::string> ParseOvmsColorFormat(std::string_view text) {
  static const std::set<std::string_view> known = {"RGB", "BGR", "GRAY", "NV12", "I420"};
  std::string plain = Capitals(text);
  const auto parts = Split(plain, ':');
  if (std::ranges::any_of(parts,
                          [](std::string_view part) { return part == "NV12_2" || part == "I420_3"; })) {
    return UnsupportedError("color format '" + plain +
                            "' is not supported: it needs one input per plane; use NV12 or I420");
  }
  if (parts.size() > 2 ||
      !std::all_of(parts.begin(), parts.end(), [](std::string_view part) { return known.contains(part); })) {
    return NoSuch("color format", text,
                  "\"RGB\", \"BGR\", \"GRAY\", \"NV12\" or \"I420\", or two of them, such as \"RGB:BGR\"");
  }
  return plain;
}

Result<std::vector<double>> ParseOvmsNumbers(std::string_view text) {
  const std::string plain = WithoutBlanks(text);
  std::vector<double> numbers;
  for (const std::string_view part : Split(Inside(Inside(plain, '[', ']'), '(', ')'), ',')) {
    const auto number = ParseNumber<double>(part);
    if (!number || !std::isfinite(*number) || numbers.size() >= kMostNumbers) {
      return NoSuch("list of numbers", text,
                    "one number, or one for each channel, such as \"[123.6,116.2,103.5]\"");
    }
    numbers.push_back(*number);
  }
  return numbers;
}

}  // namespace braid
