#include "config/supported_features.h"

#include <string>

namespace braid {

Status CheckSupportedFeatures(const inference::ModelConfig& config) {
  auto refuse = [&config](const std::string& what) {
    return UnsupportedError("model '" + config.name() + "': " + what);
  };
  if (config.has_ensemble_scheduling() || config.platform() == "ensemble") {
    return refuse("ensembles ('ensemble_scheduling', platform 'ensemble') are not supported");
  }
  if (config.has_sequence_batching()) {
    return refuse("'sequence_batching' is not supported; use 'dynamic_batching' or no scheduler");
  }
  if (config.model_transaction_policy().decoupled()) {
    return refuse("'model_transaction_policy { decoupled: true }' is not supported");
  }
  if (config.model_repository_agents().agents_size() > 0) {
    return refuse("'model_repository_agents' is not supported");
  }
  if (!config.runtime().empty()) return refuse("'runtime' is not supported; leave it empty");
  if (config.parameters().contains("EXECUTION_ENV_PATH")) {
    return refuse(
        "parameter 'EXECUTION_ENV_PATH' is not supported; models run in the environment of the server");
  }
  return OkStatus();
}

}  // namespace braid
