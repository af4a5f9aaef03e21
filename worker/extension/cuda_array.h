// Imports GPU arrays through __cuda_array_interface__, for libraries without DLPack (numba). Supports
// versions 2 and 3 of https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html.
#pragma once

#include "worker/extension/py.h"
#include "worker/extension/tensor_object.h"

namespace braid {

bool HasCudaArray(PyObject* source);

// Fills all fields but the name. The tensor keeps the array alive. The worker's stream on the device waits
// for the stream that the array names. REQUIRES: HasCudaArray(). False with an exception set.
bool TakeCudaArray(PyObject* source, PyTensor& tensor);

}  // namespace braid
