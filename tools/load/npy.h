// Reads arrays saved by numpy (.npy).
#pragma once

#include <string_view>

#include "base/status.h"
#include "load/tensor.h"

namespace braid::load {

// Returns a tensor without a name. Errors: not an .npy file, Fortran order, or a type that KServe v2 lacks.
Result<Tensor> ReadNpy(std::string_view bytes);

}  // namespace braid::load
