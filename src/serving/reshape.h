// `reshape` of a model configuration: a tensor that clients see in one shape and the model in another, of the
// same elements.
#pragma once

#include "tensor/shape.h"

namespace braid {

// Gives `shape`, which fits `from`, the form of `to`: the sizes of the -1 in `from` take the places of the -1
// in `to`, in their order. Leaves it alone and returns false when it does not fit `from`.
// REQUIRES: `from` and `to` have as many -1.
bool Reshape(const Shape& from, const Shape& to, Shape& shape);

}  // namespace braid
