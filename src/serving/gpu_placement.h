// Placement of a model's instances on devices.
#pragma once

#include <string>
#include <vector>

#include "model_config.pb.h"

namespace braid {

// The GPUs available to the models of one backend; none by default.
struct GpuPlacement {
  std::vector<int> gpus = {};     // GPU ids, ascending
  bool automatic = true;          // whether instances of KIND_AUTO, and of no kind, use these GPUs
  bool cpu_stands_in = false;     // --gpu-fallback=cpu: without a GPU, instances of KIND_GPU run on the CPU
  double least_capability = 6.0;  // the lowest compute capability accepted for `gpus`, for errors
  std::string why_none = {};      // appended to errors about missing GPUs: "; OpenVINO finds: CPU"
};

// Returns the device of each instance of a group, in the order of the instances: `count` instances on each of
// its GPUs. Without GPUs the device is 0. REQUIRES: the group's defaults are filled in.
inline std::vector<int> DevicesOfInstances(const inference::ModelInstanceGroup& group) {
  std::vector<int> devices;
  for (const int gpu : group.gpus()) devices.insert(devices.end(), group.count(), gpu);
  if (group.gpus().empty()) devices.resize(group.count(), 0);
  return devices;
}

}  // namespace braid
