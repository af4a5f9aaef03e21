#include "scheduling/sequence_model.h"

#include "model_config.pb.h"
#include "scheduling/sequence_scheduler.h"

namespace braid {

SequenceModel::~SequenceModel() = default;

Result<std::shared_ptr<SequenceModel>> SequenceModel::Start(
    ServableInfo info, std::unique_ptr<BackendModel> backend, Timers& timers, Logger& log,
    const std::function<void(const std::string&)>& progress, const Options& options) {
  BRAID_CHECK(info.config != nullptr);
  for (const auto& group : info.config->instance_group()) {
    if (!options.limits_rate || group.rate_limiter().resources().empty()) continue;
    return UnsupportedError("model '" + info.name + "': 'rate_limiter' of instance group '" + group.name() +
                            "' is not supported with 'sequence_batching' and --rate-limit");
  }
  BRAID_ASSIGN_OR_RETURN(SequencePolicy policy, SequencePolicyFromConfig(*info.config));
  auto model = std::make_shared<SequenceScheduler>(std::move(info), std::move(backend), std::move(policy),
                                                   timers, log, options);
  BRAID_RETURN_IF_ERROR(model->StartInstances(progress));
  return std::shared_ptr<SequenceModel>(std::move(model));
}

}  // namespace braid
