// BYTES tensors: between the wire form and numpy arrays of objects.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tensor/shape.h"
#include "worker/extension/py.h"

namespace braid {

// The elements of an array as bytes: exact `bytes` as they are, everything else as the UTF-8 of its str().
class BytesItems {
 public:
  // `array` is a numpy array of objects, or of fixed-length bytes. False with an exception set.
  bool Take(PyObject* array);
  // Of the wire form.
  size_t wire_size() const { return wire_size_; }
  // Writes wire_size() bytes.
  void Write(std::byte* out) const;

 private:
  std::vector<Ref> items_;
  size_t wire_size_ = 0;
};

// An array of objects with the given shape from the wire form; null with an exception set when the two do
// not fit each other.
PyObject* ArrayFromWire(std::span<const std::byte> wire, const Shape& shape);

// The same with one dimension, of as many elements as there are.
PyObject* FlatArrayFromWire(std::span<const std::byte> wire);

// pb_utils.serialize_byte_tensor and deserialize_bytes_tensor; METH_O.
PyObject* SerializeByteTensor(PyObject* module, PyObject* array);
PyObject* DeserializeBytesTensor(PyObject* module, PyObject* buffer);

}  // namespace braid
