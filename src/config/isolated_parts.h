// Which native code runs in a process of its own: what --isolate names, and what models say of themselves.
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

// The names of `parts`, separated by commas.
std::string NamesOf(const IsolatedParts& parts);
// Reads such names. Errors: INVALID_ARGUMENT for one that there is not.
Result<IsolatedParts> ParseIsolatedParts(std::string_view text);

// The parameter of a config.pbtxt by which an OpenVINO model says where it runs: "true" or "false".
inline constexpr std::string_view kIsolateParameter = "ISOLATE";
// Whether a model is isolated; `otherwise` when it does not say. Errors: INVALID_ARGUMENT.
Result<bool> IsIsolated(const inference::ModelConfig& config, bool otherwise);

}  // namespace braid
