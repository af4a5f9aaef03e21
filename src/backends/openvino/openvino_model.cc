#include "backends/openvino/openvino_model.h"

#include <utility>

namespace braid {

OpenVinoModel::OpenVinoModel(ov::CompiledModel compiled, CompiledFacts facts,
                             const std::vector<InstanceName>& instances, std::shared_ptr<const void> files)
    : files_(std::move(files)), compiled_(std::move(compiled)), facts_(std::move(facts)) {
  for (const InstanceName& instance : instances) {
    instances_.push_back(std::make_unique<OpenVinoInstance>(instance.name, instance.passive, facts_));
  }
}

OpenVinoModel::~OpenVinoModel() = default;

std::vector<Instance*> OpenVinoModel::instances() {
  std::vector<Instance*> all;
  for (const auto& instance : instances_) all.push_back(instance.get());
  return all;
}

Status OpenVinoModel::Start(ExecutionListener& listener, const std::function<void(const std::string&)>&) {
  for (const auto& instance : instances_) BRAID_RETURN_IF_ERROR(instance->Start(compiled_, listener));
  return OkStatus();
}

void OpenVinoModel::Stop(int64_t deadline_ns) {
  for (const auto& instance : instances_) instance->Stop(deadline_ns);
}

}  // namespace braid
