// The JSON form of a model configuration: what user code gets in args["model_config"], what the protocols
// return, and what a load request or a model's auto_complete_config brings back.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "model_config.pb.h"

namespace braid {

// Field names as in the proto file and in its order; scalars, lists and maps printed even when empty,
// sub-messages only when set; 64-bit integers as numbers, enums as names; the keys of maps sorted. Bytes that
// are not UTF-8 are replaced.
std::string ConfigToJson(const inference::ModelConfig& config);

// The inverse. Takes proto names and lowerCamelCase names, enums as names or numbers, and 64-bit integers as
// numbers or strings. Errors: INVALID_ARGUMENT that names the place ("input[0].dims[1]: expected an
// integer"): unknown and repeated fields, wrong types, numbers out of range, two choices of a oneof, text
// nested too deep.
Result<inference::ModelConfig> ConfigFromJson(std::string_view json);

}  // namespace braid
