// IsolatedParts: the native code that runs in separate processes, as --isolate and the models' parameters
// choose.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "model_config.pb.h"

namespace braid {

struct IsolatedParts {
  bool openvino = false;
  bool custom_nodes = false;
  bool images = false;
  bool calculators = false;
  bool operator==(const IsolatedParts&) const = default;
};

// Returns the names of `parts`, separated by commas.
std::string NamesOf(const IsolatedParts& parts);
// Parses such names. Errors: INVALID_ARGUMENT for an unknown name.
Result<IsolatedParts> ParseIsolatedParts(std::string_view text);

// The parameter in a config.pbtxt that chooses isolation of an OpenVINO model: "true" or "false".
inline constexpr std::string_view kIsolateParameter = "ISOLATE";
// Whether a model is isolated; `otherwise` without the parameter. Errors: INVALID_ARGUMENT.
Result<bool> IsIsolated(const inference::ModelConfig& config, bool otherwise);

}  // namespace braid
