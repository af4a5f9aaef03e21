#include "serving/reshape.h"

namespace braid {

bool Reshape(const Shape& from, const Shape& to, Shape& shape) {
  if (!ShapeMatches(from, shape)) return false;
  Shape reshaped = to;
  size_t next = 0;
  for (int64_t& dim : reshaped) {
    if (dim != -1) continue;
    while (from[next] != -1) ++next;
    dim = shape[next++];
  }
  shape = std::move(reshaped);
  return true;
}

}  // namespace braid
