// Request bodies that register shared memory regions over HTTP.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "protocols/inference/client_shared_memory.h"

namespace braid {

// The body has key, offset and byte_size.
Status RegisterSystemRegion(ClientSharedMemory& memory, const std::string& region, std::string_view body);
// The body has raw_handle, as {"b64": "..."}, device_id and byte_size. Blocks.
Status RegisterCudaRegion(ClientSharedMemory& memory, const std::string& region, std::string_view body);

}  // namespace braid
