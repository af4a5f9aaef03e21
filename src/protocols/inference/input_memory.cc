#include "protocols/inference/input_memory.h"

#include "protocols/inference/cuda_region.h"

namespace braid {

Status InputMemory::Prepare(const ServableInfo& info) {
  // Later checks refuse such requests, except for some graphs. Without this check too many bytes could be
  // copied before.
  const bool too_many = inputs_.size() > info.inputs.size();
  for (Input& input : inputs_) {
    if (too_many && input.region.region) {
      if (info.kind == ServableKind::kGraph) {
        return InvalidArgumentError("a request with more inputs than graph '" + info.name +
                                    "' has input streams cannot use shared memory");
      }
      input.bytes = 0;
    }
    if (input.bytes <= kSharedBytes) shared_ += Aligned(input.bytes);
  }
  return OkStatus();
}

Result<Buffer> InputMemory::Take(BufferAllocator& allocator, size_t size) {
  if (size > kSharedBytes || shared_ > kSharedBytes) return allocator.Allocate(size);
  if (block_.empty()) {
    BRAID_ASSIGN_OR_RETURN(block_, allocator.Allocate(shared_));
  }
  Buffer taken = block_.Slice(offset_, size);
  offset_ += Aligned(size);
  return taken;
}

// Messages within a stream to a graph do not begin like requests, so they have no preparation.
Status InputMemory::FillLater(const ServableInfo& info, size_t input, InferenceRequest& request) {
  const RegionPart& part = inputs_[input].region;
  if (info.kind == ServableKind::kGraph)
    return UnsupportedError("inputs of graph '" + info.name + "' cannot use CUDA shared memory");
  DevicePreparation::Of(request, *part.region->copies()).AddInput(input, part);
  return OkStatus();
}

}  // namespace braid
