// States of one number, for tests of the order of steps.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "tensor/tensor.h"

namespace braid {

inline Tensor Number(std::string name, uint64_t value) {
  return {std::move(name), DataType::kUint64, Shape(1, 1), CopyToHeap(std::as_bytes(std::span(&value, 1)))};
}
inline uint64_t ValueOf(const Tensor& tensor) {
  uint64_t value = 0;
  std::memcpy(&value, tensor.data.data(), std::min(sizeof(value), tensor.data.size()));
  return value;
}

// Returns the state after a step. Any two orders of steps give different states.
inline uint64_t Step(uint64_t state, uint64_t input) {
  state = (state ^ input) * 0x9E3779B97F4A7C15u;
  return state ^ (state >> 29);
}

}  // namespace braid
