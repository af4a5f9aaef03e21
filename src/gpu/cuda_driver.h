// CudaDriver: the functions of NVIDIA's driver that Braid calls, loaded at run time from libcuda.so.1. The
// build needs no CUDA. The declarations here describe the driver's binary interface, from its public
// documentation.
//
//   Result<std::shared_ptr<const CudaDriver>> driver = CudaDriver::Open();
//   if (!driver.ok()) return;   // no usable GPU; the status has the reason
//   BRAID_RETURN_IF_ERROR((*driver)->Check("cuDeviceGetCount", (*driver)->device_get_count(&count)));
//
// After a fork, the child cannot use a driver that its parent has opened (CUDA_ERROR_NOT_INITIALIZED). The
// warm interpreter, from which workers are forked, therefore never opens it.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string_view>

#include "base/status.h"

namespace braid {

using CudaDevice = int;
// An address in a device's memory; the host cannot read it.
using CudaAddress = unsigned long long;
using CudaContextHandle = struct CUctx_st*;
using CudaStream = struct CUstream_st*;
using CudaEvent = struct CUevent_st*;
struct CudaUuid {
  std::array<unsigned char, 16> bytes;
};

// Identifies device memory for other processes.
struct CudaIpcHandle {
  std::array<char, 64> bytes;
};

// Physical memory of a device. It must be mapped for use, and can be shared with other processes by
// descriptor.
using CudaMemHandle = unsigned long long;
struct CudaMemLocation {
  int type = 1;  // a device
  int id = 0;
};
struct CudaMemProperties {
  int type = 1;          // pinned, the only value
  int handle_types = 1;  // exportable as a POSIX file descriptor
  CudaMemLocation location;
  void* win32_handle = nullptr;
  unsigned char flags[8] = {};
};
struct CudaMemAccess {
  CudaMemLocation location;
  int flags = 3;  // read and write
};

class CudaDriver {
 public:
  static constexpr unsigned kStreamNonBlocking = 1;  // does not wait for the default stream
  static constexpr unsigned kEventDisableTiming = 2;
  static constexpr unsigned kIpcMemLazyEnablePeerAccess = 1;  // the only value

  static constexpr unsigned kHostRegisterPortable = 1;  // for all contexts

  static constexpr int kByDescriptor = 1;  // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
  static constexpr int kLeastGranularity = 0;

  enum Attribute : int {
    kComputeCapabilityMajor = 75,
    kComputeCapabilityMinor = 76,
  };
  enum PointerAttribute : int { kDeviceOrdinal = 9 };

  // Loads and initializes the driver. Creates no context and allocates no GPU memory. Errors: NOT_FOUND if
  // there is no driver or it is too old; otherwise the error of cuInit(), for example that there is no
  // device.
  static Result<std::shared_ptr<const CudaDriver>> Open();

  // Returns OK for 0. Otherwise INTERNAL (RESOURCE_EXHAUSTED if memory is missing): "cuMemAlloc:
  // CUDA_ERROR_OUT_OF_MEMORY (out of memory)".
  Status Check(std::string_view function, int result) const;

  // Named after the cu* functions; all return a CUresult. Thread-safe.
  int (*device_get_count)(int* count) = nullptr;
  int (*device_get)(CudaDevice* device, int ordinal) = nullptr;
  int (*device_get_name)(char* name, int size, CudaDevice device) = nullptr;
  int (*device_get_uuid)(CudaUuid* uuid, CudaDevice device) = nullptr;
  int (*device_total_mem)(size_t* bytes, CudaDevice device) = nullptr;
  int (*device_get_attribute)(int* value, int attribute, CudaDevice device) = nullptr;
  int (*device_primary_ctx_retain)(CudaContextHandle* context, CudaDevice device) = nullptr;
  int (*device_primary_ctx_release)(CudaDevice device) = nullptr;
  // The following functions need a context that is current on the thread.
  int (*ctx_push_current)(CudaContextHandle context) = nullptr;
  int (*ctx_pop_current)(CudaContextHandle* context) = nullptr;
  int (*ctx_synchronize)() = nullptr;
  int (*stream_create)(CudaStream* stream, unsigned flags) = nullptr;
  int (*stream_synchronize)(CudaStream stream) = nullptr;
  int (*stream_destroy)(CudaStream stream) = nullptr;
  int (*stream_wait_event)(CudaStream stream, CudaEvent event, unsigned flags) = nullptr;
  int (*event_create)(CudaEvent* event, unsigned flags) = nullptr;
  int (*event_record)(CudaEvent event, CudaStream stream) = nullptr;
  int (*event_destroy)(CudaEvent event) = nullptr;
  int (*mem_host_register)(void* at, size_t bytes, unsigned flags) = nullptr;
  int (*mem_host_unregister)(void* at) = nullptr;
  int (*memcpy_dtoh_async)(void* to, CudaAddress from, size_t bytes, CudaStream stream) = nullptr;
  int (*memcpy_htod_async)(CudaAddress to, const void* from, size_t bytes, CudaStream stream) = nullptr;
  int (*memcpy_dtod_async)(CudaAddress to, CudaAddress from, size_t bytes, CudaStream stream) = nullptr;
  int (*memset_d8_async)(CudaAddress to, unsigned char value, size_t bytes, CudaStream stream) = nullptr;
  int (*mem_get_allocation_granularity)(size_t* bytes, const CudaMemProperties* properties,
                                        int option) = nullptr;
  int (*mem_create)(CudaMemHandle* handle, size_t bytes, const CudaMemProperties* properties,
                    unsigned long long flags) = nullptr;
  int (*mem_release)(CudaMemHandle handle) = nullptr;
  int (*mem_address_reserve)(CudaAddress* address, size_t bytes, size_t alignment, CudaAddress wish,
                             unsigned long long flags) = nullptr;
  int (*mem_address_free)(CudaAddress address, size_t bytes) = nullptr;
  int (*mem_map)(CudaAddress address, size_t bytes, size_t offset, CudaMemHandle handle,
                 unsigned long long flags) = nullptr;
  int (*mem_unmap)(CudaAddress address, size_t bytes) = nullptr;
  int (*mem_set_access)(CudaAddress address, size_t bytes, const CudaMemAccess* access,
                        size_t count) = nullptr;
  int (*mem_export)(void* descriptor, CudaMemHandle handle, int type, unsigned long long flags) = nullptr;
  int (*mem_import)(CudaMemHandle* handle, void* descriptor, int type) = nullptr;
  int (*mem_get_address_range)(CudaAddress* base, size_t* bytes, CudaAddress address) = nullptr;
  int (*pointer_get_attribute)(void* value, int attribute, CudaAddress address) = nullptr;
  int (*ipc_open_mem_handle)(CudaAddress* address, CudaIpcHandle handle, unsigned flags) = nullptr;
  int (*ipc_close_mem_handle)(CudaAddress address) = nullptr;

 private:
  CudaDriver() = default;

  int (*init_)(unsigned flags) = nullptr;
  int (*get_error_name_)(int result, const char** name) = nullptr;
  int (*get_error_string_)(int result, const char** text) = nullptr;
};

}  // namespace braid
