// Dimensions: the shape of a specification as one range per dimension, to be compared and intersected.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "serving/servable.h"

namespace braid {

using Dimensions = std::vector<DimensionRange>;

inline constexpr DimensionRange kAnySize{0, -1};
inline DimensionRange SizeOf(int64_t size) { return {size, size}; }
// The dimension of stacked shards: `demultiply`, or any size if it is -1.
inline DimensionRange SizeOfShards(int32_t demultiply) {
  return demultiply > 0 ? SizeOf(demultiply) : kAnySize;
}
bool Contains(const DimensionRange& range, int64_t size);

Dimensions DimensionsOf(const TensorSpec& spec);
// Sets `shape` and `ranges`.
void SetDimensions(const Dimensions& dimensions, TensorSpec& spec);
// Returns the dimensions that fit both; nothing if no tensor fits both.
std::optional<Dimensions> Intersect(const Dimensions& a, const Dimensions& b);
// Formats dimensions as "(1,3,-1,1:8)".
std::string ToString(const Dimensions& dimensions);

}  // namespace braid
