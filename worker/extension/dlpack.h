// DLPack, in and out (https://dmlc.github.io/dlpack). The structures are those of its C interface, version
// 0.x, which every library speaks.
#pragma once

#include "worker/extension/py.h"
#include "worker/extension/tensor_object.h"

namespace braid {

inline constexpr int kDlCpu = 1;
inline constexpr int kDlCuda = 2;
inline constexpr int kDlCudaHost = 3;

// A capsule over the memory of a Tensor object, which it keeps alive. Of one on a GPU, what `stream` is given from now on
// waits until it is there: an integer as __dlpack__() has it, or null or None for the default stream. Null with an exception
// set.
PyObject* CapsuleOfTensor(PyObject* tensor, PyObject* stream);

// Fills all but the name from a capsule, from an object that has __dlpack__ and __dlpack_device__, or from one that has neither
// but __cuda_array_interface__ (cuda_array.h). The
// producer's memory is kept for as long as the tensor lives. On a GPU, the worker's stream there (DeviceOf()) waits for what
// the producer has under way, or of a capsule, for the default stream. False with an exception set.
bool TakeDlpack(PyObject* source, PyTensor& tensor);

}  // namespace braid
