// pb_utils.Tensor.
#pragma once

#include "tensor/data_type.h"
#include "tensor/shape.h"
#include "worker/extension/py.h"

namespace braid {

// The value of a Tensor object. Its bytes never move while the object lives.
struct PyTensor {
  Ref name;                   // str
  Ref array;                  // the source array, or the one that as_numpy() made
  Ref memory;                 // owns `data` unless `array` does
  std::byte* data = nullptr;  // row-major; BYTES in wire format
  size_t size = 0;
  DataType type = DataType::kInvalid;
  int device_type = 1;  // numbered as in DLPack: 1 is the CPU
  int device_id = 0;
  Shape shape;
};

bool AddTensorType(PyObject* module);

// Returns a new Tensor object. Null with an exception set.
PyObject* NewTensor(PyTensor value);

}  // namespace braid
