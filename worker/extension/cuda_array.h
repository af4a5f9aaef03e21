// Arrays on a GPU by their __cuda_array_interface__, which libraries without DLPack have (numba). Versions 2 and 3 of
// https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html.
#pragma once

#include "worker/extension/py.h"
#include "worker/extension/tensor_object.h"

namespace braid {

bool HasCudaArray(PyObject* source);

// Fills all but the name. The array is kept for as long as the tensor lives; the worker's stream on its device waits for the
// stream that it names. REQUIRES: HasCudaArray(). False with an exception set.
bool TakeCudaArray(PyObject* source, PyTensor& tensor);

}  // namespace braid
