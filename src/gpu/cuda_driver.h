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
struct CudaUuid {
  std::array<unsigned char, 16> bytes;
};

class CudaDriver {
 public:
  enum Attribute : int {
    kComputeCapabilityMajor = 75,
    kComputeCapabilityMinor = 76,
  };

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

 private:
  CudaDriver() = default;

  int (*init_)(unsigned flags) = nullptr;
  int (*get_error_name_)(int result, const char** name) = nullptr;
  int (*get_error_string_)(int result, const char** text) = nullptr;
};

}  // namespace braid
