#include "protocols/json/json.h"

#include <algorithm>
#include <array>
#include <boost/container/small_vector.hpp>
#include <cctype>
#include <limits>

#include "base/json.h"
#include "base/utf8.h"

namespace braid {
namespace {

using simdjson::dom::element;

// The place of an error in a longer text is not located.
constexpr size_t kMaxLocatedBytes = size_t{1} << 20;

// Finds the place of a syntax error, which simdjson's DOM does not report.
class ErrorLocator : public JsonEvents {
 public:
  size_t offset() const { return offset_; }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    offset_ = position > 0 ? position - 1 : 0;
    return false;
  }

 private:
  size_t offset_ = 0;
};

Status SyntaxError(simdjson::error_code code, std::string_view text) {
  if (code == simdjson::DEPTH_ERROR) {
    return InvalidArgumentError("JSON nesting depth exceeds maximum allowed limit (100)");
  }
  size_t offset = 0;
  std::string reason = simdjson::error_message(code);
  if (code == simdjson::EMPTY) {
    reason = "The document is empty.";
  } else if (text.size() <= kMaxLocatedBytes) {
    ErrorLocator locator;
    ReadJson(text, locator);
    offset = locator.offset();
  }
  return InternalError("failed to parse the request JSON buffer: " + reason + " at " +
                       std::to_string(offset));
}

// NaN and Infinity are not JSON. But responses have them, and Triton reads them in requests. simdjson does
// not, so it parses these numbers instead. They are denormals too small for FP32, which have no other use.
struct NotFinite {
  std::string_view name;
  std::string_view literal;
  double number;
  double value;
};
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr NotFinite kNotFinite[] = {{"NaN", "7e-320", 7e-320, std::numeric_limits<double>::quiet_NaN()},
                                    {"-NaN", "7e-320", 7e-320, std::numeric_limits<double>::quiet_NaN()},
                                    {"Infinity", "9e-320", 9e-320, kInfinity},
                                    {"-Infinity", "-9e-320", -9e-320, -kInfinity},
                                    {"Inf", "9e-320", 9e-320, kInfinity},
                                    {"-Inf", "-9e-320", -9e-320, -kInfinity}};

// The text with numbers is longer than the text that the memory budget was charged for, hence a limit.
constexpr size_t kMostWithNames = size_t{4} << 20;

// Returns the text with the numbers in place of such names; nullopt if it has no such name where a value may
// stand.
std::optional<std::string> WithNumbers(std::string_view text) {
  std::string out;
  size_t copied = 0;
  bool quoted = false;
  char before = '\0';  // the last character outside of strings that is not blank
  for (size_t i = 0; i < text.size(); ++i) {
    const char one = text[i];
    if (quoted) {
      if (one == '\\') ++i;
      quoted = one != '"';
      continue;
    }
    quoted = one == '"';
    if ((one == 'N' || one == 'I' || one == '-') && (before == '[' || before == ',' || before == ':')) {
      for (const NotFinite& each : kNotFinite) {
        if (!text.substr(i).starts_with(each.name)) continue;
        out.append(text, copied, i - copied).append(each.literal);
        i += each.name.size() - 1;
        copied = i + 1;
        break;
      }
    }
    if (!std::isspace(static_cast<unsigned char>(one))) before = one;
  }
  if (copied == 0) return std::nullopt;
  return out.append(text, copied);
}

simdjson::error_code Parse(simdjson::dom::parser& parser, std::string_view text, bool copy, element& root) {
  const auto error = parser.parse(text.data(), text.size(), copy).get(root);
  if (!error || error == simdjson::DEPTH_ERROR) return error;
  const auto numbers = text.size() <= kMostWithNames ? WithNumbers(text) : std::nullopt;
  return numbers ? parser.parse(*numbers).get(root) : error;
}

Status KindError(std::string_view name, std::string_view kind) {
  return InternalError("Unable to parse '" + Shortened(name) + "': attempt to access JSON non-" +
                       std::string(kind) + " as " + std::string(kind));
}

int Base64Value(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  if (c == '/') return 63;
  return -1;
}

}  // namespace

Result<element> ParseJson(simdjson::dom::parser& parser, std::string_view text) {
  element root;
  const auto error = Parse(parser, text, false, root);
  if (error) return SyntaxError(error, text);
  return root;
}

Result<element> ParseJsonCopy(simdjson::dom::parser& parser, std::string_view text) {
  element root;
  const auto error = Parse(parser, text, true, root);
  if (error) return SyntaxError(error, text);
  return root;
}

Result<std::string_view> JsonString(std::string_view name, element element) {
  std::string_view value;
  if (element.get_string().get(value)) return KindError(name, "string");
  return value;
}

Result<bool> JsonBool(std::string_view name, element element) {
  bool value = false;
  if (element.get_bool().get(value)) return KindError(name, "boolean");
  return value;
}

Result<uint64_t> JsonUnsigned(std::string_view name, element element) {
  uint64_t value = 0;
  if (element.get_uint64().get(value)) return KindError(name, "unsigned-integer");
  return value;
}

Result<simdjson::dom::array> JsonArray(std::string_view name, element element, size_t limit) {
  simdjson::dom::array value;
  if (element.get_array().get(value)) return KindError(name, "array");
  if (value.size() > limit) {
    return InvalidArgumentError("'" + Shortened(name) + "' has more than " + std::to_string(limit) +
                                " elements");
  }
  return value;
}

Result<simdjson::dom::object> JsonObject(std::string_view name, element element, size_t limit) {
  simdjson::dom::object value;
  if (element.get_object().get(value)) return KindError(name, "object");
  boost::container::small_vector<std::string_view, 16> keys;
  for (auto field : value) {
    if (keys.size() == limit) {
      return InvalidArgumentError("'" + Shortened(name) + "' has more than " + std::to_string(limit) +
                                  " keys");
    }
    keys.push_back(field.key);
  }
  std::sort(keys.begin(), keys.end());
  if (auto twice = std::adjacent_find(keys.begin(), keys.end()); twice != keys.end()) {
    return InvalidArgumentError("duplicate key '" + Shortened(*twice) + "' in '" + Shortened(name) + "'");
  }
  return value;
}

bool JsonDouble(element element, double& value) {
  if (element.get_double().get(value)) return false;
  for (const NotFinite& each : kNotFinite) {
    if (value == each.number) value = each.value;
  }
  return true;
}

Result<ParameterValue> JsonParameter(std::string_view name, element element) {
  using simdjson::dom::element_type;
  switch (element.type()) {
    case element_type::BOOL:
      return ParameterValue(element.get_bool().value_unsafe());
    case element_type::INT64:
      return ParameterValue(element.get_int64().value_unsafe());
    case element_type::UINT64:
      return ParameterValue(element.get_uint64().value_unsafe());
    case element_type::DOUBLE: {
      double number = 0;
      (void)JsonDouble(element, number);
      return ParameterValue(number);
    }
    case element_type::STRING:
      return ParameterValue(std::string(element.get_string().value_unsafe()));
    default:
      return InvalidArgumentError("parameter '" + Shortened(name) +
                                  "' has invalid type. It should be either 'int', 'bool', or 'string'.");
  }
}

Status ReservedParameterError() {
  return InvalidArgumentError(
      "parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified.");
}

std::optional<std::string> DecodeBase64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::string out;
  out.reserve(text.size() / 4 * 3);
  for (size_t at = 0; at < text.size(); at += 4) {
    const bool last = at + 4 == text.size();
    const int padding = last ? (text[at + 3] == '=') + (text[at + 3] == '=' && text[at + 2] == '=') : 0;
    uint32_t bits = 0;
    for (size_t i = 0; i < 4; ++i) {
      const bool pad = i >= 4 - static_cast<size_t>(padding);
      const int value = pad ? 0 : Base64Value(text[at + i]);
      if (value < 0) return std::nullopt;
      bits = bits << 6 | static_cast<uint32_t>(value);
    }
    out += static_cast<char>(bits >> 16);
    if (padding < 2) out += static_cast<char>(bits >> 8 & 0xff);
    if (padding < 1) out += static_cast<char>(bits & 0xff);
  }
  return out;
}

}  // namespace braid
