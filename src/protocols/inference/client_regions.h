// ClientRegions: the regions of clients' shared memory that one request may name.
#pragma once

#include <string_view>

#include "base/status.h"
#include "protocols/access/access_control.h"
#include "protocols/inference/client_shared_memory.h"

namespace braid {

// A view; all that it refers to outlives it.
class ClientRegions {
 public:
  // There are none.
  ClientRegions() = default;
  // Those of `memory`, for senders with the right to the API shared-memory with `model`.
  ClientRegions(const ClientSharedMemory& memory, const Authorization& authorization, std::string_view model)
      : memory_(&memory), authorization_(&authorization), model_(model) {}

  // Where a tensor lies. REQUIRES: asked.region. Errors: UNAUTHENTICATED, PERMISSION_DENIED, and those of
  // ClientSharedMemory::Find().
  Result<RegionPart> Find(const RegionRequest& asked, std::string_view tensor) const;

 private:
  const ClientSharedMemory* memory_ = nullptr;
  const Authorization* authorization_ = nullptr;
  std::string_view model_;
};

}  // namespace braid
