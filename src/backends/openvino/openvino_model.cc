#include "backends/openvino/openvino_model.h"

#include <algorithm>
#include <utility>

namespace braid {

OpenVinoModel::OpenVinoModel(std::unique_ptr<RequestSource> source, CompiledFacts facts,
                             const std::vector<InstanceName>& instances, std::shared_ptr<const void> files)
    : files_(std::move(files)), facts_(std::move(facts)), source_(std::move(source)) {
  const auto add_pool = [this](const CompiledTensor& state) {
    pools_.push_back(StatePool::Make(state.element, state.shape, facts_.output_memory));
  };
  std::for_each(facts_.outputs.begin() + static_cast<ptrdiff_t>(facts_.own_outputs()), facts_.outputs.end(),
                add_pool);
  if (facts_.states == StatePlace::kVariables)
    std::for_each(facts_.variables.begin(), facts_.variables.end(), add_pool);
  for (const InstanceName& instance : instances) {
    instances_.push_back(
        std::make_unique<OpenVinoInstance>(instance.name, instance.passive, facts_, pools_, *source_));
  }
  source_->OnDiscarded([this] {
    for (const auto& instance : instances_) instance->RenewIfIdle();
  });
}

OpenVinoModel::~OpenVinoModel() = default;

std::vector<Instance*> OpenVinoModel::instances() {
  std::vector<Instance*> all;
  for (const auto& instance : instances_) all.push_back(instance.get());
  return all;
}

Status OpenVinoModel::Start(ExecutionListener& listener, const std::function<void(const std::string&)>&) {
  for (const auto& instance : instances_) BRAID_RETURN_IF_ERROR(instance->Start(listener));
  return OkStatus();
}

void OpenVinoModel::Stop(int64_t deadline_ns) {
  for (const auto& instance : instances_) instance->Stop(deadline_ns);
}

}  // namespace braid
