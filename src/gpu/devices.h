// GpuDevices: the GPUs on which models can be placed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "gpu/cuda_driver.h"

namespace braid {

struct GpuDevice {
  int id = 0;  // the driver's number among the devices that CUDA_VISIBLE_DEVICES makes visible
  std::string name;
  std::string uuid;  // "GPU-8a5e3c1c-..."
  uint64_t memory_bytes = 0;
  int capability_major = 0;
  int capability_minor = 0;
};

struct GpuDevices {
  std::shared_ptr<const CudaDriver> driver;  // shared by all users of the driver; null if there is no device
  std::vector<GpuDevice> devices;            // in the order of their ids, which may have gaps
  // Log messages: why no device was found despite a driver, and which devices are too old.
  std::vector<std::string> notes;
};

// Returns the driver's devices with at least `least_capability` as compute capability (6.0). Creates no
// contexts. Never fails: without a working driver, the list is empty.
GpuDevices FindGpus(double least_capability);

}  // namespace braid
