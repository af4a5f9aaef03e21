#include "config/supported_features.h"

#include <string>
#include <utility>

#include "config/known_backends.h"

namespace braid {

FieldFault FindUnsupportedFeature(const inference::ModelConfig& config) {
  auto refuse = [&config](const std::string& what, std::string field) {
    return FieldFault(UnsupportedError("model '" + config.name() + "': " + what), std::move(field));
  };
  for (int i = 0; i < config.sequence_batching().state_size(); ++i) {
    const auto& state = config.sequence_batching().state(i);
    const std::string field = FieldAt("sequence_batching.state", i);
    const std::string who = " of state '" + state.input_name() + "' is not supported; ";
    if (state.use_same_buffer_for_input_output()) {
      return refuse("'use_same_buffer_for_input_output'" + who +
                        "the model must return its new state as output '" + state.output_name() + "'",
                    field + ".use_same_buffer_for_input_output");
    }
    if (state.use_growable_memory()) {
      return refuse("'use_growable_memory'" + who + "a state can change its size without it",
                    field + ".use_growable_memory");
    }
  }
  // Users' code does not see these fields, neither in Triton nor here.
  if (!RunsUserCode(config.backend())) {
    const std::string why = " is not supported: no backend supports such tensors";
    if (config.batch_input_size() > 0) return refuse("'batch_input'" + why, "batch_input");
    if (config.batch_output_size() > 0) return refuse("'batch_output'" + why, "batch_output");
  }
  if (config.model_repository_agents().agents_size() > 0) {
    return refuse("'model_repository_agents' is not supported", "model_repository_agents");
  }
  if (!config.runtime().empty()) return refuse("'runtime' is not supported; leave it empty", "runtime");
  return {};
}

Status CheckSupportedFeatures(const inference::ModelConfig& config) {
  return FindUnsupportedFeature(config).status;
}

}  // namespace braid
