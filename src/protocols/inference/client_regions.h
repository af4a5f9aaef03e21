// ClientRegions: the regions of clients' shared memory that one request may name.
#pragma once

#include <string_view>

#include "base/status.h"
#include "protocols/access/access_control.h"
#include "protocols/inference/client_shared_memory.h"

namespace braid {

// A view; the objects to which it refers outlive it.
class ClientRegions {
 public:
  // No regions.
  ClientRegions() = default;
  // The regions of `memory`. The sender needs the right to the API shared-memory with `model`.
  ClientRegions(const ClientSharedMemory& memory, const Authorization& authorization, std::string_view model)
      : memory_(&memory), authorization_(&authorization), model_(model) {}

  // Returns the place of a tensor. REQUIRES: asked.region is set. Errors: UNAUTHENTICATED, PERMISSION_DENIED,
  // and those of ClientSharedMemory::Find().
  Result<RegionPart> Find(const RegionRequest& asked, std::string_view tensor) const;

 private:
  const ClientSharedMemory* memory_ = nullptr;
  const Authorization* authorization_ = nullptr;
  std::string_view model_;
};

}  // namespace braid
