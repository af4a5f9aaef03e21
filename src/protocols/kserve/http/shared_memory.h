// The routes of the shared-memory extensions over HTTP: from bodies to ClientSharedMemory, and to answers.
#pragma once

#include <string>
#include <string_view>

#include "protocols/http/message.h"
#include "protocols/inference/client_shared_memory.h"

namespace braid {

// `region` is empty where the path names none, which stands for all. Any thread.
HttpResponse SystemMemoryStatus(const ClientSharedMemory& memory, std::string_view region);
HttpResponse CudaMemoryStatus(const ClientSharedMemory& memory, std::string_view region);
// The body says key, offset and byte_size.
Status RegisterSystemRegion(ClientSharedMemory& memory, const std::string& region, std::string_view body);
// The body says raw_handle, as {"b64": "..."}, device_id and byte_size. Blocks.
Status RegisterCudaRegion(ClientSharedMemory& memory, const std::string& region, std::string_view body);

}  // namespace braid
