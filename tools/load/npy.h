// Arrays that numpy has saved (.npy).
#pragma once

#include <string_view>

#include "base/status.h"
#include "load/tensor.h"

namespace braid::load {

// A tensor without a name. Errors: no such file, one in Fortran's order, or of a type that KServe v2 does not have.
Result<Tensor> ReadNpy(std::string_view bytes);

}  // namespace braid::load
