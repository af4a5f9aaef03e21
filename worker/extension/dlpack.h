// DLPack import and export (https://dmlc.github.io/dlpack). The structures are those of its C interface,
// version 0.x, which every library supports.
#pragma once

#include "worker/extension/py.h"
#include "worker/extension/tensor_object.h"

namespace braid {

inline constexpr int kDlCpu = 1;
inline constexpr int kDlCuda = 2;
inline constexpr int kDlCudaHost = 3;

// Returns a capsule over the memory of a Tensor object, and keeps the object alive. For a GPU tensor, later
// work on `stream` waits until the data is there. `stream` is an integer as in __dlpack__(), or null or None
// for the default stream. Null with an exception set.
PyObject* CapsuleOfTensor(PyObject* tensor, PyObject* stream);

// Fills all fields but the name. The source is a capsule, an object with __dlpack__ and __dlpack_device__, or
// one with only __cuda_array_interface__ (cuda_array.h). The tensor keeps the producer's memory alive. On a
// GPU, the worker's stream (DeviceOf()) waits for the producer's pending work; for a capsule it waits for the
// default stream. False with an exception set.
bool TakeDlpack(PyObject* source, PyTensor& tensor);

}  // namespace braid
