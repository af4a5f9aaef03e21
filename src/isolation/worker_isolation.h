// WorkerIsolation: the parts of a worker's isolation that depend on its model.
#pragma once

#include <vector>

#include "base/landlock.h"
#include "isolation/isolation_level.h"
#include "isolation/worker_cgroup.h"

namespace braid {

struct WorkerIsolation {
  IsolationLevel level = IsolationLevel::kBasic;
  // For strict and separate: the model's own files.
  std::vector<LandlockPath> files = {};
  // Settings of its control group, if the operator has configured one.
  std::vector<CgroupSetting> cgroup = {};
  // For strict and separate: whether it reaches the machine's GPUs.
  bool gpus = false;
};

}  // namespace braid
