// What of one worker's isolation depends on its model.
#pragma once

#include <vector>

#include "base/landlock.h"
#include "isolation/isolation_level.h"
#include "isolation/worker_cgroup.h"

namespace braid {

struct WorkerIsolation {
  IsolationLevel level = IsolationLevel::kBasic;
  // The model's own files; of strict and separate.
  std::vector<LandlockPath> files = {};
  // Of its control group, where the operator gives one.
  std::vector<CgroupSetting> cgroup = {};
  // Whether it reaches the machine's GPUs; of strict and separate.
  bool gpus = false;
};

}  // namespace braid
