// pb_utils.Tensor.
#pragma once

#include "tensor/data_type.h"
#include "tensor/shape.h"
#include "worker/extension/py.h"

namespace braid {

// The value of a Tensor object. Its bytes never move while the object lives.
struct PyTensor {
  Ref name;                   // str
  Ref array;                  // the array that it was made from, or the one that as_numpy() made
  Ref memory;                 // what `data` lies in, when that is not `array`
  std::byte* data = nullptr;  // row-major; BYTES in their wire form
  size_t size = 0;
  DataType type = DataType::kInvalid;
  int device_type = 1;  // in DLPack's numbers: 1 is the CPU
  int device_id = 0;
  Shape shape;
};

bool AddTensorType(PyObject* module);

// A new Tensor object around it. Null with an exception set.
PyObject* NewTensor(PyTensor value);

}  // namespace braid
