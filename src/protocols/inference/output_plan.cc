#include "protocols/inference/output_plan.h"

#include "base/utf8.h"
#include "protocols/inference/classification.h"
#include "protocols/inference/cuda_region.h"

namespace braid {

const OutputWish* OutputPlan::Find(std::string_view name) const {
  for (const OutputWish& wish : wishes) {
    if (wish.name == name) return &wish;
  }
  return nullptr;
}

Status OutputPlan::Add(const ServableInfo& info, const ClientSharedMemory* memory, const RegionWish& region,
                       OutputWish wish) {
  if (region.region) {
    if (wish.classes > 0) {
      return InvalidArgumentError("Output can't set both 'shared_memory_region' and 'classification'");
    }
    BRAID_ASSIGN_OR_RETURN(wish.part, FindRegion(memory, region, wish.name));
  }
  if (wish.classes > 0) {
    if (const TensorSpec* spec = info.FindOutput(wish.name)) wish.spec = *spec;
  }
  wishes.push_back(std::move(wish));
  return OkStatus();
}

Status OutputPlan::Prepare(const ServableInfo& info, InferenceRequest& request) const {
  for (const OutputWish& wish : wishes) {
    ElasticThreads* const copies = wish.part.region ? wish.part.region->copies() : nullptr;
    if (copies == nullptr) continue;
    if (info.kind == ServableKind::kGraph)
      return UnsupportedError("outputs of graph '" + info.name + "' cannot lie in CUDA shared memory");
    DeviceDetour::Of(request, *copies).AddOutputs();
    break;
  }
  return OkStatus();
}

Status OutputPlan::Apply(std::vector<Tensor>& outputs) const {
  if (wishes.empty()) return OkStatus();
  for (Tensor& output : outputs) {
    const OutputWish* wish = Find(output.name);
    if (wish == nullptr) continue;
    if (wish->classes > 0) {
      const TensorSpec* spec = wish->spec.name.empty() ? nullptr : &wish->spec;
      BRAID_ASSIGN_OR_RETURN(output, Classify(output, wish->classes, batching, spec));
    }
    if (wish->part.region) BRAID_RETURN_IF_ERROR(PutOutput(wish->part, output));
  }
  return OkStatus();
}

Result<RegionPart> FindRegion(const ClientSharedMemory* memory, const RegionWish& wish,
                              std::string_view tensor) {
  if (memory != nullptr) return memory->Find(wish, tensor);
  return NotFoundError("Unable to find shared memory region: '" + Shortened(*wish.region) + "'");
}

}  // namespace braid
