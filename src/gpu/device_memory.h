// Memory of a device that goes from process to process: physical memory with a descriptor, which whoever has it can map. It
// lives until the last descriptor and the last mapping are gone, whichever process made it, and however that ended.
//
// (The other way would be the driver's IPC handles, as clients' regions have them: such memory is its maker's, and what others
// see of it when the maker ends is undefined. It cannot be passed on by a third process that has not opened it either, and the
// kernel's view of who may see whom stands between confined processes. A descriptor goes where it is sent.)
//
//   BRAID_ASSIGN_OR_RETURN(auto made, DeviceMemory::Create(context, 1000));
//   BRAID_ASSIGN_OR_RETURN(UniqueFd descriptor, made->Export());
//   BRAID_ASSIGN_OR_RETURN(auto taken, DeviceMemory::Import(context, descriptor.get(), made->size()));   // elsewhere
#pragma once

#include <cstddef>
#include <memory>

#include "base/status.h"
#include "base/unique_fd.h"
#include "gpu/cuda_context.h"

namespace braid {

// Mapped memory of a device. Any thread; all of it may block.
class DeviceMemory {
 public:
  // At least `bytes`, in the device's own units (2 MiB as a rule). Errors: those of the driver; RESOURCE_EXHAUSTED where there
  // is not so much.
  static Result<std::unique_ptr<DeviceMemory>> Create(std::shared_ptr<CudaContext> context, size_t bytes);
  // What another process has exported. Errors: those of the driver, for a descriptor of something else or of another size.
  static Result<std::unique_ptr<DeviceMemory>> Import(std::shared_ptr<CudaContext> context, int descriptor,
                                                      size_t bytes);
  // REQUIRES: nothing uses it any more, the device either.
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  CudaContext& context() const { return *context_; }
  const std::shared_ptr<CudaContext>& shared_context() const { return context_; }
  CudaAddress address() const { return address_; }
  size_t size() const { return size_; }
  // A descriptor for other processes. Errors: those of the driver.
  Result<UniqueFd> Export() const;

 private:
  DeviceMemory(std::shared_ptr<CudaContext> context, size_t size)
      : context_(std::move(context)), size_(size) {}
  // `handle_` is set.
  Status Map();

  const std::shared_ptr<CudaContext> context_;  // shared by all that is on the device
  const size_t size_;
  CudaMemHandle handle_ = 0;
  bool has_handle_ = false;
  bool mapped_ = false;
  CudaAddress address_ = 0;
};

}  // namespace braid
