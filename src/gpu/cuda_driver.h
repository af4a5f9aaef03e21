// CudaDriver: the functions of NVIDIA's driver that Braid calls, found at run time in libcuda.so.1. Nothing of CUDA is
// needed to build; what is declared here are facts of the driver's binary interface, from its public documentation.
//
//   Result<std::shared_ptr<const CudaDriver>> driver = CudaDriver::Open();
//   if (!driver.ok()) return;   // there is no GPU that could be used; the status says why
//   BRAID_RETURN_IF_ERROR((*driver)->Check("cuDeviceGetCount", (*driver)->device_get_count(&count)));
//
// A process that has opened the driver may not be forked and go on to use it in the child: the driver refuses that
// (CUDA_ERROR_NOT_INITIALIZED). The warm interpreter, which workers fork from, never opens it.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string_view>

#include "base/status.h"

namespace braid {

using CudaDevice = int;
// An address in a device's memory, which the host cannot read.
using CudaAddress = unsigned long long;
using CudaContextHandle = struct CUctx_st*;
using CudaStream = struct CUstream_st*;
using CudaEvent = struct CUevent_st*;
struct CudaUuid {
  std::array<unsigned char, 16> bytes;
};

// Names memory of a device to other processes.
struct CudaIpcHandle {
  std::array<char, 64> bytes;
};

// Physical memory of a device, which is mapped to be used, and can be handed to other processes by a descriptor.
using CudaMemHandle = unsigned long long;
struct CudaMemLocation {
  int type = 1;  // a device
  int id = 0;
};
struct CudaMemProperties {
  int type = 1;          // pinned, the only one that there is
  int handle_types = 1;  // it can be exported by a POSIX file descriptor
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
  static constexpr unsigned kStreamNonBlocking = 1;  // it does not wait for the default stream
  static constexpr unsigned kEventDisableTiming = 2;
  static constexpr unsigned kIpcMemLazyEnablePeerAccess = 1;  // the only value that there is

  static constexpr unsigned kHostRegisterPortable = 1;  // for all contexts

  static constexpr int kByDescriptor = 1;  // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
  static constexpr int kLeastGranularity = 0;

  enum Attribute : int {
    kComputeCapabilityMajor = 75,
    kComputeCapabilityMinor = 76,
  };
  enum PointerAttribute : int { kDeviceOrdinal = 9 };

  // Loads and initializes the driver; makes no context, and takes no memory of a GPU. Errors: NOT_FOUND where there is
  // no driver, or one that is too old; what cuInit() says otherwise, among it that there is no device.
  static Result<std::shared_ptr<const CudaDriver>> Open();

  // OK for 0; otherwise INTERNAL (RESOURCE_EXHAUSTED where memory is missing):
  // "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (out of memory)".
  Status Check(std::string_view function, int result) const;

  // Named after cu*; all return a CUresult. Any thread.
  int (*device_get_count)(int* count) = nullptr;
  int (*device_get)(CudaDevice* device, int ordinal) = nullptr;
  int (*device_get_name)(char* name, int size, CudaDevice device) = nullptr;
  int (*device_get_uuid)(CudaUuid* uuid, CudaDevice device) = nullptr;
  int (*device_total_mem)(size_t* bytes, CudaDevice device) = nullptr;
  int (*device_get_attribute)(int* value, int attribute, CudaDevice device) = nullptr;
  int (*device_primary_ctx_retain)(CudaContextHandle* context, CudaDevice device) = nullptr;
  int (*device_primary_ctx_release)(CudaDevice device) = nullptr;
  // What follows needs a context that is the thread's own (current).
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
