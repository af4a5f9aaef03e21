// Which instances of a model run on which device.
#pragma once

#include <string>
#include <vector>

#include "model_config.pb.h"

namespace braid {

// The GPUs that models of one backend can be placed on; none by default.
struct GpuPlacement {
  std::vector<int> gpus = {};  // their ids, rising
  bool automatic = true;       // whether instances of KIND_AUTO, and of no kind, are placed on them
  bool cpu_stands_in = false;  // --gpu-fallback=cpu: instances of KIND_GPU run on the CPU where there is none
  double least_capability = 6.0;  // of those in `gpus`, for errors
  std::string why_none = {};      // what errors say besides where there is none: "; OpenVINO finds: CPU"
};

// The device of each instance of a group whose defaults are filled in, in the order of the instances: `count` on each of
// its GPUs. Without GPUs it is 0.
inline std::vector<int> DevicesOfInstances(const inference::ModelInstanceGroup& group) {
  std::vector<int> devices;
  for (const int gpu : group.gpus()) devices.insert(devices.end(), group.count(), gpu);
  if (group.gpus().empty()) devices.resize(group.count(), 0);
  return devices;
}

}  // namespace braid
