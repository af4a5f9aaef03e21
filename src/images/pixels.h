// Conversion of 8-bit pixels to a tensor's numbers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/data_type.h"

namespace braid {

// Whether a tensor of this type can hold pixels: all numeric types can.
bool HoldsPixels(DataType type);

// Writes `count` values of `type` to `to`. Values beyond the type's range become its largest value. REQUIRES:
// HoldsPixels(type); `to` is large enough, and aligned for the type.
void ConvertPixels(const uint8_t* pixels, size_t count, DataType type, std::byte* to);

}  // namespace braid
