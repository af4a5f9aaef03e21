// Conversion of BYTES tensors between the wire format and numpy arrays of objects.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tensor/shape.h"
#include "worker/extension/py.h"

namespace braid {

// The elements of an array as bytes: exact `bytes` objects unchanged, all others as the UTF-8 of their str().
class BytesItems {
 public:
  // Takes the elements of a numpy array of objects or of fixed-length bytes. False with an exception set.
  bool Take(PyObject* array);
  // The size of all elements in wire format.
  size_t wire_size() const { return wire_size_; }
  // Writes wire_size() bytes.
  void Write(std::byte* out) const;

 private:
  std::vector<Ref> items_;
  size_t wire_size_ = 0;
};

// Returns an array of objects with the given shape. Null with an exception set if the wire data does not fit
// the shape.
PyObject* ArrayFromWire(std::span<const std::byte> wire, const Shape& shape);

// The same with one dimension; the data determines its size.
PyObject* FlatArrayFromWire(std::span<const std::byte> wire);

// pb_utils.serialize_byte_tensor and deserialize_bytes_tensor; METH_O.
PyObject* SerializeByteTensor(PyObject* module, PyObject* array);
PyObject* DeserializeBytesTensor(PyObject* module, PyObject* buffer);

}  // namespace braid
