// Pixels of eight bits as the numbers of a tensor.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/data_type.h"

namespace braid {

// Whether a tensor of this type can hold pixels: one of numbers.
bool HoldsPixels(DataType type);

// Writes `count` values of `type` to `to`; what the type cannot hold becomes its largest value. REQUIRES:
// HoldsPixels(type); `to` has room for them, aligned for the type.
void ConvertPixels(const uint8_t* pixels, size_t count, DataType type, std::byte* to);

}  // namespace braid
