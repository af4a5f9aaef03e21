// DeviceMemory: physical GPU memory that processes share by descriptor. It lives until the last descriptor
// and the last mapping are gone, even if the process that created it has crashed.
//
// Clients' regions use the driver's IPC handles instead. Such memory belongs to its creator: its contents are
// undefined once the creator has ended. A process can only pass on a handle that it has opened itself, and
// ptrace access checks block it between confined processes. A descriptor can be sent to any process.
//
//   BRAID_ASSIGN_OR_RETURN(auto made, DeviceMemory::Create(context, 1000));
//   BRAID_ASSIGN_OR_RETURN(UniqueFd descriptor, made->Export());
//   ...                                                       // in another process:
//   BRAID_ASSIGN_OR_RETURN(auto taken, DeviceMemory::Import(context, descriptor, size));
#pragma once

#include <cstddef>
#include <memory>

#include "base/status.h"
#include "base/unique_fd.h"
#include "gpu/cuda_context.h"

namespace braid {

// Mapped memory of a device. Thread-safe; every call may block.
class DeviceMemory {
 public:
  // Allocates at least `bytes`, rounded up to the device's granularity (usually 2 MiB). Errors: those of the
  // driver; RESOURCE_EXHAUSTED if there is too little memory.
  static Result<std::unique_ptr<DeviceMemory>> Create(std::shared_ptr<CudaContext> context, size_t bytes);
  // Imports memory that another process has exported. Errors: those of the driver, for a descriptor of
  // another kind or size.
  static Result<std::unique_ptr<DeviceMemory>> Import(std::shared_ptr<CudaContext> context, int descriptor,
                                                      size_t bytes);
  // REQUIRES: no work on the host or the device uses it any more.
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  CudaContext& context() const { return *context_; }
  const std::shared_ptr<CudaContext>& shared_context() const { return context_; }
  CudaAddress address() const { return address_; }
  size_t size() const { return size_; }
  // Returns a descriptor for other processes. Errors: those of the driver.
  Result<UniqueFd> Export() const;

 private:
  DeviceMemory(std::shared_ptr<CudaContext> context, size_t size)
      : context_(std::move(context)), size_(size) {}
  // REQUIRES: `handle_` is set.
  Status Map();

  const std::shared_ptr<CudaContext> context_;  // shared by all objects on the device
  const size_t size_;
  CudaMemHandle handle_ = 0;
  bool has_handle_ = false;
  bool mapped_ = false;
  CudaAddress address_ = 0;
};

}  // namespace braid
