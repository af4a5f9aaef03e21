// The GPUs that models can be placed on.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "gpu/cuda_driver.h"

namespace braid {

struct GpuDevice {
  int id = 0;  // as the driver counts those that CUDA_VISIBLE_DEVICES lets be seen
  std::string name;
  std::string uuid;  // "GPU-8a5e3c1c-..."
  uint64_t memory_bytes = 0;
  int capability_major = 0;
  int capability_minor = 0;
};

struct GpuDevices {
  std::shared_ptr<const CudaDriver> driver;  // shared by all who use it; null where no device is
  std::vector<GpuDevice> devices;            // in the order of their ids, which may have gaps
  // Sentences for the log: why there are none where there is a driver, and which devices are too old.
  std::vector<std::string> notes;
};

// What the driver finds, without those whose compute capability is below `least_capability` (6.0). Makes no contexts.
// Never fails: a machine without a driver, or whose driver does not work, has none.
GpuDevices FindGpus(double least_capability);

}  // namespace braid
