// Functions that read the JSON of requests. Their error texts are those of the HTTP protocol.
#pragma once

#include <simdjson.h>

#include <string>
#include <string_view>

#include "base/status.h"
#include "serving/parameters.h"

namespace braid {

// Parses `text`. The result is valid until the parser is used again. NaN, Infinity, Inf and their negatives
// are numbers in texts of up to 4 MiB; JsonDouble() reads them.
// Errors: INTERNAL "failed to parse the request JSON buffer: {reason} at {offset}".
// REQUIRES: SIMDJSON_PADDING readable bytes follow `text`.
Result<simdjson::dom::element> ParseJson(simdjson::dom::parser& parser, std::string_view text);
// The same for a text without padding, which is copied.
Result<simdjson::dom::element> ParseJsonCopy(simdjson::dom::parser& parser, std::string_view text);

// These return `element`, the value of field `name`, as the type that the function names. Errors: INTERNAL
// "Unable to parse '{name}': attempt to access JSON non-string as string" and the like.
Result<std::string_view> JsonString(std::string_view name, simdjson::dom::element element);
Result<bool> JsonBool(std::string_view name, simdjson::dom::element element);
// Returns false for values that are not numbers.
bool JsonDouble(simdjson::dom::element element, double& value);
Result<uint64_t> JsonUnsigned(std::string_view name, simdjson::dom::element element);
// Refuses arrays of more than `limit` elements too.
Result<simdjson::dom::array> JsonArray(std::string_view name, simdjson::dom::element element, size_t limit);
// Refuses objects with a repeated key, or with more than `limit` keys: INVALID_ARGUMENT.
Result<simdjson::dom::object> JsonObject(std::string_view name, simdjson::dom::element element, size_t limit);

// Values for `limit`: tensors in a request, and keys in an object.
inline constexpr size_t kMaxJsonTensors = 4096;
inline constexpr size_t kMaxJsonKeys = 4096;

// Returns the value of a free parameter, one without a meaning in the protocol. Errors: INVALID_ARGUMENT
// "parameter '{name}' has invalid type. ...".
Result<ParameterValue> JsonParameter(std::string_view name, simdjson::dom::element element);

// INVALID_ARGUMENT for a parameter whose name starts with "triton_".
Status ReservedParameterError();

// Decodes strict, padded base64 (RFC 4648). Returns nullopt for any other text.
std::optional<std::string> DecodeBase64(std::string_view text);

}  // namespace braid
