// The JSON form of a model configuration. User code gets it in args["model_config"], and the protocols return
// it. Load requests and a model's auto_complete_config send it back.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "model_config.pb.h"

namespace braid {

// Writes field names as in the proto file and in its order. Scalars, lists and maps are printed even if
// empty, sub-messages only if set. 64-bit integers are numbers, enums are names, and map keys are sorted.
// Bytes that are not UTF-8 are replaced.
std::string ConfigToJson(const inference::ModelConfig& config);

// Reads the JSON form. Accepts proto names and lowerCamelCase names, enums as names or numbers, and 64-bit
// integers as numbers or strings. Errors: INVALID_ARGUMENT that names the place ("input[0].dims[1]: expected
// an integer"). It covers unknown and repeated fields, wrong types, numbers out of range, two choices of a
// oneof, and text nested too deep.
Result<inference::ModelConfig> ConfigFromJson(std::string_view json);

}  // namespace braid
