#include "protocols/inference/output_plan.h"

#include "protocols/inference/classification.h"
#include "protocols/inference/cuda_region.h"

namespace braid {

const OutputRequest* OutputPlan::Find(std::string_view name) const {
  for (const OutputRequest& asked : asked_outputs) {
    if (asked.name == name) return &asked;
  }
  return nullptr;
}

Status OutputPlan::Add(const ServableInfo& info, const ClientRegions& regions, const RegionRequest& region,
                       OutputRequest asked) {
  if (region.region) {
    if (asked.classes > 0) {
      return InvalidArgumentError("Output can't set both 'shared_memory_region' and 'classification'");
    }
    BRAID_ASSIGN_OR_RETURN(asked.part, regions.Find(region, asked.name));
  }
  if (asked.classes > 0) {
    if (const TensorSpec* spec = info.FindOutput(asked.name)) asked.spec = *spec;
  }
  asked_outputs.push_back(std::move(asked));
  return OkStatus();
}

Status OutputPlan::Prepare(const ServableInfo& info, InferenceRequest& request) const {
  for (const OutputRequest& asked : asked_outputs) {
    ElasticThreads* const copies = asked.part.region ? asked.part.region->copies() : nullptr;
    if (copies == nullptr) continue;
    if (info.kind == ServableKind::kGraph)
      return UnsupportedError("outputs of graph '" + info.name + "' cannot use CUDA shared memory");
    DevicePreparation::Of(request, *copies).AddOutputs();
    break;
  }
  return OkStatus();
}

Status OutputPlan::Apply(std::vector<Tensor>& outputs) const {
  if (asked_outputs.empty()) return OkStatus();
  for (Tensor& output : outputs) {
    const OutputRequest* asked = Find(output.name);
    if (asked == nullptr) continue;
    if (asked->classes > 0) {
      const TensorSpec* spec = asked->spec.name.empty() ? nullptr : &asked->spec;
      BRAID_ASSIGN_OR_RETURN(output, Classify(output, asked->classes, batching, spec));
    }
    if (asked->part.region) BRAID_RETURN_IF_ERROR(PutOutput(asked->part, output));
  }
  return OkStatus();
}

}  // namespace braid
