// WarmupSample: a request that a model runs before clients may use it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace braid {

// One `model_warmup` entry of a configuration.
struct WarmupSample {
  std::string name;
  // Number of runs on each instance.
  uint32_t count = 1;
  int64_t batch_size = 1;
  // The inputs of a client, and those that only the model knows.
  std::vector<Tensor> inputs;
};

}  // namespace braid
