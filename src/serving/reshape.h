// Reshape: `reshape` of a model configuration, where clients and the model see different shapes of the same
// elements.
#pragma once

#include "tensor/shape.h"

namespace braid {

// Changes `shape` from the form of `from` to that of `to`. The sizes of the -1 in `from` replace the -1 in
// `to`, in order. Returns false and leaves `shape` unchanged if it does not fit `from`. REQUIRES: `from` and
// `to` have equally many -1.
bool Reshape(const Shape& from, const Shape& to, Shape& shape);

}  // namespace braid
