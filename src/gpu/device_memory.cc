#include "gpu/device_memory.h"

#include <cstdint>
#include <string>
#include <utility>

namespace braid {

Result<std::unique_ptr<DeviceMemory>> DeviceMemory::Create(std::shared_ptr<CudaContext> context,
                                                           size_t bytes) {
  const CudaDriver& cuda = *context->driver_;
  CudaMemProperties properties;
  properties.location.id = context->gpu();
  size_t unit = 0;
  BRAID_RETURN_IF_ERROR(
      cuda.Check("cuMemGetAllocationGranularity",
                 cuda.mem_get_allocation_granularity(&unit, &properties, CudaDriver::kLeastGranularity)));
  if (unit == 0 || bytes == 0 || bytes > SIZE_MAX - unit)
    return InvalidArgumentError("invalid size of device memory: " + std::to_string(bytes) + " bytes");
  std::unique_ptr<DeviceMemory> memory(
      new DeviceMemory(std::move(context), (bytes + unit - 1) / unit * unit));
  BRAID_RETURN_IF_ERROR(memory->context_->Within([&] {
    BRAID_RETURN_IF_ERROR(
        cuda.Check("cuMemCreate", cuda.mem_create(&memory->handle_, memory->size_, &properties, 0)));
    memory->has_handle_ = true;
    return memory->Map();
  }));
  return memory;
}

Result<std::unique_ptr<DeviceMemory>> DeviceMemory::Import(std::shared_ptr<CudaContext> context,
                                                           int descriptor, size_t bytes) {
  const CudaDriver& cuda = *context->driver_;
  std::unique_ptr<DeviceMemory> memory(new DeviceMemory(std::move(context), bytes));
  BRAID_RETURN_IF_ERROR(memory->context_->Within([&] {
    // The API passes the number itself in the pointer argument.
    BRAID_RETURN_IF_ERROR(cuda.Check(
        "cuMemImportFromShareableHandle",
        cuda.mem_import(&memory->handle_, reinterpret_cast<void*>(static_cast<intptr_t>(descriptor)),
                        CudaDriver::kByDescriptor)));
    memory->has_handle_ = true;
    return memory->Map();
  }));
  return memory;
}

Status DeviceMemory::Map() {
  const CudaDriver& cuda = *context_->driver_;
  BRAID_RETURN_IF_ERROR(
      cuda.Check("cuMemAddressReserve", cuda.mem_address_reserve(&address_, size_, 0, 0, 0)));
  BRAID_RETURN_IF_ERROR(cuda.Check("cuMemMap", cuda.mem_map(address_, size_, 0, handle_, 0)));
  mapped_ = true;
  CudaMemAccess access;
  access.location.id = context_->gpu();
  return cuda.Check("cuMemSetAccess", cuda.mem_set_access(address_, size_, &access, 1));
}

// On a lost device these calls fail, and nothing is left to release.
DeviceMemory::~DeviceMemory() {
  const CudaDriver& cuda = *context_->driver_;
  static_cast<void>(context_->Within([&] {
    if (mapped_) cuda.mem_unmap(address_, size_);
    if (address_ != 0) cuda.mem_address_free(address_, size_);
    if (has_handle_) cuda.mem_release(handle_);
    return OkStatus();
  }));
}

Result<UniqueFd> DeviceMemory::Export() const {
  const CudaDriver& cuda = *context_->driver_;
  int descriptor = -1;
  BRAID_RETURN_IF_ERROR(context_->Within([&] {
    return cuda.Check("cuMemExportToShareableHandle",
                      cuda.mem_export(&descriptor, handle_, CudaDriver::kByDescriptor, 0));
  }));
  return UniqueFd(descriptor);
}

}  // namespace braid
