// numpy arrays through numpy's own Python API: the extension is not built against numpy, so that any version
// will do.
#pragma once

#include <cstddef>

#include "tensor/data_type.h"
#include "tensor/shape.h"
#include "worker/extension/py.h"

namespace braid {

// The tensor type of an array: objects and fixed-length bytes are BYTES. False with TritonModelException when
// there is none; another byte order than the machine's is told by kInvalid with true, see TakeArray().
bool TypeOfArray(PyObject* array, DataType& type);

// The tensor type of what numpy calls a kind ('f') and an item size (4), under whatever name; kInvalid for none.
DataType TypeByKind(char kind, long size);

bool IsObjectArray(PyObject* array);

// A C-ordered array in the machine's byte order.
struct ArrayView {
  Ref array;  // the one that was given when it is so already
  DataType type = DataType::kInvalid;
  const std::byte* data = nullptr;  // lives as long as the array; the objects themselves for BYTES
  size_t size = 0;
  Shape shape;
};

// Takes an array for a tensor. False with an exception set.
bool TakeArray(PyObject* array, ArrayView& out);

// A tuple of ints.
PyObject* ShapeTuple(const Shape& shape);

// A new array; objects are None, the rest undefined.
PyObject* NewArray(DataType type, const Shape& shape);

// An array over the bytes of `memory`, an object with the buffer protocol; `size` bytes at its start.
// REQUIRES: the type has a numpy type of fixed size, and its elements take up `size` bytes.
PyObject* ArrayOver(PyObject* memory, size_t size, DataType type, const Shape& shape);

}  // namespace braid
