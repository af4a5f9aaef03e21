// Requests that a model runs before its first client does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace braid {

// One `model_warmup` entry of a configuration.
struct WarmupSample {
  std::string name;
  // How often it runs on each instance.
  uint32_t count = 1;
  int64_t batch_size = 1;
  // As a client would send them, and those that only the model knows of.
  std::vector<Tensor> inputs;
};

}  // namespace braid
