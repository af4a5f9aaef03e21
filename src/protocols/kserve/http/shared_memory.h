// The routes of the shared-memory extensions over HTTP: from bodies to ClientSharedMemory, and to answers.
#pragma once

#include <string>
#include <string_view>

#include "protocols/http/message.h"
#include "protocols/inference/client_shared_memory.h"

namespace braid {

// `region` is empty where the path names none, which stands for all. Any thread.
HttpResponse SystemMemoryStatus(const ClientSharedMemory& memory, std::string_view region);
// The body says key, offset and byte_size.
HttpResponse RegisterSystemMemory(ClientSharedMemory& memory, const std::string& region,
                                  std::string_view body);
HttpResponse UnregisterSystemMemory(ClientSharedMemory& memory, std::string_view region);
HttpResponse CudaMemoryStatus(std::string_view region);
HttpResponse RegisterCudaMemory(std::string_view region);

}  // namespace braid
