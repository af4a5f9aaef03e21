// Reading JSON of requests with the error texts of the HTTP protocol.
#pragma once

#include <simdjson.h>

#include <string>
#include <string_view>

#include "base/status.h"
#include "serving/parameters.h"

namespace braid {

// Parses `text`, behind which SIMDJSON_PADDING bytes can be read. The result lives as long as the parser is
// not used again. NaN, Infinity, Inf and their negatives are numbers, for JsonDouble(), in texts of up to 4 MiB. Errors: INTERNAL "failed to parse the request JSON buffer: {reason} at {offset}".
Result<simdjson::dom::element> ParseJson(simdjson::dom::parser& parser, std::string_view text);
// The same for a text without padding, which is copied.
Result<simdjson::dom::element> ParseJsonCopy(simdjson::dom::parser& parser, std::string_view text);

// The element as the type that its field `name` has. Errors: INTERNAL "Unable to parse '{name}': attempt to
// access JSON non-string as string" and the like.
Result<std::string_view> JsonString(std::string_view name, simdjson::dom::element element);
Result<bool> JsonBool(std::string_view name, simdjson::dom::element element);
// False for what is no number.
bool JsonDouble(simdjson::dom::element element, double& value);
Result<uint64_t> JsonUnsigned(std::string_view name, simdjson::dom::element element);
// Arrays of more than `limit` elements are refused too.
Result<simdjson::dom::array> JsonArray(std::string_view name, simdjson::dom::element element, size_t limit);
// Objects with the same key twice, and of more than `limit` keys, are refused with INVALID_ARGUMENT.
Result<simdjson::dom::object> JsonObject(std::string_view name, simdjson::dom::element element, size_t limit);

// Limits of those two: of tensors in a request, and of keys in an object.
inline constexpr size_t kMaxJsonTensors = 4096;
inline constexpr size_t kMaxJsonKeys = 4096;

// A free parameter. Errors: INVALID_ARGUMENT "parameter '{name}' has invalid type. ...".
Result<ParameterValue> JsonParameter(std::string_view name, simdjson::dom::element element);

// INVALID_ARGUMENT, the text for such a key.
Status ReservedParameterError();

// Strict base64 (RFC 4648, padded). Nothing for anything else.
std::optional<std::string> DecodeBase64(std::string_view text);

}  // namespace braid
