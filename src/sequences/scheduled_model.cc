#include "sequences/scheduled_model.h"

#include "model_config.pb.h"
#include "scheduling/batched_model.h"
#include "sequences/sequence_model.h"
#include "sequences/stateful_model.h"

namespace braid {
namespace {

Result<std::shared_ptr<InstancePool>> MakeModel(ServableInfo info, std::unique_ptr<BackendModel> backend,
                                                Timers& timers, Logger& log,
                                                const InstancePool::Options& options) {
  if (info.config->has_sequence_batching()) {
    for (const auto& group : info.config->instance_group()) {
      if (options.limiter == nullptr || group.rate_limiter().resources().empty()) continue;
      return UnsupportedError("model '" + info.name + "': 'rate_limiter' of instance group '" + group.name() +
                              "' is not supported with 'sequence_batching' and --rate-limit");
    }
    BRAID_ASSIGN_OR_RETURN(SequencePolicy policy, SequencePolicyFromConfig(*info.config));
    return std::shared_ptr<InstancePool>(std::make_shared<SequenceModel>(
        std::move(info), std::move(backend), std::move(policy), timers, log, options));
  }
  BRAID_ASSIGN_OR_RETURN(BatchingPolicy policy, BatchingPolicyFromConfig(*info.config));
  if (info.stateful) {
    // The answer depends on earlier requests, so it cannot be cached.
    InstancePool::Options without_cache = options;
    without_cache.cache = nullptr;
    return std::shared_ptr<InstancePool>(std::make_shared<StatefulModel>(
        std::move(info), std::move(backend), std::move(policy), timers, log, without_cache));
  }
  return std::shared_ptr<InstancePool>(std::make_shared<BatchedModel>(
      std::move(info), std::move(backend), std::move(policy), timers, log, options));
}

}  // namespace

Result<std::shared_ptr<InstancePool>> StartModel(ServableInfo info, std::unique_ptr<BackendModel> backend,
                                                 Timers& timers, Logger& log,
                                                 const std::function<void(const std::string&)>& progress,
                                                 const InstancePool::Options& options) {
  BRAID_CHECK(info.config != nullptr);
  BRAID_ASSIGN_OR_RETURN(auto model, MakeModel(std::move(info), std::move(backend), timers, log, options));
  BRAID_RETURN_IF_ERROR(model->Start(progress));
  return model;
}

}  // namespace braid
