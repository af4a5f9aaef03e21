// What of one worker's isolation depends on its model.
#pragma once

#include <vector>

#include "base/landlock.h"
#include "isolation/isolation_level.h"

namespace braid {

struct WorkerIsolation {
  IsolationLevel level = IsolationLevel::kBasic;
  // The model's own files; of strict and separate.
  std::vector<LandlockPath> files = {};
  // Whether it reaches the machine's GPUs; of strict and separate.
  bool gpus = false;
};

}  // namespace braid
