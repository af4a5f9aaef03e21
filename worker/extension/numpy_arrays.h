// numpy arrays through numpy's Python API. The extension is not built against numpy, so it works with any
// version.
#pragma once

#include <cstddef>

#include "tensor/data_type.h"
#include "tensor/shape.h"
#include "worker/extension/py.h"

namespace braid {

// Determines the tensor type of an array; objects and fixed-length bytes are BYTES. False with
// TritonModelException if there is none. Returns true with kInvalid for another byte order than the
// machine's; see TakeArray().
bool TypeOfArray(PyObject* array, DataType& type);

// Returns the tensor type for numpy's kind ('f') and item size (4), under any dtype name; kInvalid for none.
DataType TypeByKind(char kind, long size);

bool IsObjectArray(PyObject* array);

// A C-ordered array in the machine's byte order.
struct ArrayView {
  Ref array;  // the given array if it already fits
  DataType type = DataType::kInvalid;
  const std::byte* data = nullptr;  // lives as long as the array; for BYTES the objects themselves
  size_t size = 0;
  Shape shape;
};

// Converts an array for use as a tensor. False with an exception set.
bool TakeArray(PyObject* array, ArrayView& out);

// Returns a tuple of ints.
PyObject* ShapeTuple(const Shape& shape);

// Returns a new array. Objects are None; other elements are uninitialized.
PyObject* NewArray(DataType type, const Shape& shape);

// Returns an array over the first `size` bytes of `memory`, an object with the buffer protocol. REQUIRES: the
// type has a numpy type of fixed size, and its elements take up `size` bytes.
PyObject* ArrayOver(PyObject* memory, size_t size, DataType type, const Shape& shape);

}  // namespace braid
