#include "config/supported_features.h"

#include <string>

namespace braid {

Status CheckSupportedFeatures(const inference::ModelConfig& config) {
  auto refuse = [&config](const std::string& what) {
    return UnsupportedError("model '" + config.name() + "': " + what);
  };
  for (const auto& state : config.sequence_batching().state()) {
    const std::string who = " of state '" + state.input_name() + "' is not supported; ";
    if (state.use_same_buffer_for_input_output()) {
      return refuse("'use_same_buffer_for_input_output'" + who +
                    "a model gives its new state back as output '" + state.output_name() + "'");
    }
    if (state.use_growable_memory()) {
      return refuse("'use_growable_memory'" + who + "a state may have another size each time without it");
    }
  }
  if (config.model_repository_agents().agents_size() > 0) {
    return refuse("'model_repository_agents' is not supported");
  }
  if (!config.runtime().empty()) return refuse("'runtime' is not supported; leave it empty");
  return OkStatus();
}

}  // namespace braid
