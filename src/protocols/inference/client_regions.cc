#include "protocols/inference/client_regions.h"

#include "base/utf8.h"

namespace braid {

Result<RegionPart> ClientRegions::Find(const RegionRequest& asked, std::string_view tensor) const {
  if (memory_ == nullptr)
    return NotFoundError("Unable to find shared memory region: '" + Shortened(*asked.region) + "'");
  // Checked before the name is looked up, so that names of regions stay secret too.
  BRAID_RETURN_IF_ERROR(authorization_->CheckAlso(Api::kSharedMemory, model_));
  return memory_->Find(asked, tensor);
}

}  // namespace braid
