#include "config/supported_features.h"

#include <string>

namespace braid {

Status CheckSupportedFeatures(const inference::ModelConfig& config, const FeatureLimits& limits) {
  auto refuse = [&config](const std::string& what) {
    return UnsupportedError("model '" + config.name() + "': " + what);
  };
  if (config.has_sequence_batching()) {
    return refuse("'sequence_batching' is not supported; use 'dynamic_batching' or no scheduler");
  }
  if (config.model_warmup_size() > 0) return refuse("'model_warmup' is not supported");
  if (config.response_cache().enable()) return refuse("'response_cache { enable: true }' is not supported");
  if (config.model_repository_agents().agents_size() > 0) {
    return refuse("'model_repository_agents' is not supported");
  }
  if (!config.runtime().empty()) return refuse("'runtime' is not supported; leave it empty");
  if (config.parameters().contains("EXECUTION_ENV_PATH")) {
    return refuse(
        "parameter 'EXECUTION_ENV_PATH' is not supported; models run in the environment of the server");
  }
  if (limits.rate_limit) {
    for (const auto& group : config.instance_group()) {
      if (group.has_rate_limiter()) {
        return refuse("'rate_limiter' of instance group '" + group.name() +
                      "' is not supported with --rate-limit");
      }
    }
  }
  for (const auto& input : config.input()) {
    if (input.has_reshape()) return refuse("'reshape' of input '" + input.name() + "' is not supported");
  }
  for (const auto& output : config.output()) {
    if (output.has_reshape()) return refuse("'reshape' of output '" + output.name() + "' is not supported");
  }
  return OkStatus();
}

}  // namespace braid
