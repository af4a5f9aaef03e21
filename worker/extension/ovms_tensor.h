// pyovms.Tensor: the inputs and outputs of Python nodes. A read-only view of bytes, with a name, a shape and
// a datatype that describe them. Shape and datatype need not fit the bytes.
//
// A tensor made by user code is a view of its source object. It keeps the object alive and prevents its
// resizing. Only a source that is not in C order is copied, once. A tensor made for an execution is a view of
// memory lent by the server, which goes back with the last view.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/data_type.h"
#include "tensor/shape.h"
#include "worker/extension/py.h"

namespace braid {

// The buffer of another object; released by the destructor. Not movable, because its fields may point into
// it.
class HeldBuffer {
 public:
  // Null with an exception set if the object does not support the buffer request.
  static std::unique_ptr<HeldBuffer> Of(PyObject* object, int flags);
  ~HeldBuffer() { PyBuffer_Release(&view_); }
  HeldBuffer(const HeldBuffer&) = delete;
  HeldBuffer& operator=(const HeldBuffer&) = delete;
  const Py_buffer& view() const { return view_; }

 private:
  HeldBuffer() = default;
  Py_buffer view_{};
};

// The value of a Tensor object. The constructor sets it once; no part of it moves while the object lives.
struct OvmsTensor {
  // The attributes; null before the constructor runs.
  Ref name;      // str
  Ref shape;     // tuple of int
  Ref datatype;  // str

  // The buffer, in C order.
  std::byte* data = nullptr;
  size_t size = 0;
  size_t itemsize = 1;
  std::string format;
  std::vector<Py_ssize_t> dims;
  std::vector<Py_ssize_t> strides;

  // The owner of the bytes: an object of user code with its buffer, or memory of this extension.
  Ref source;
  std::unique_ptr<HeldBuffer> held;
  Ref memory;

  bool constructed() const { return static_cast<bool>(datatype); }
};

bool AddOvmsTensorType(PyObject* module);

// The parts of a request's tensor.
struct OvmsTensorParts {
  Ref name;
  DataType type = DataType::kInvalid;
  std::string_view custom_type;  // for DataType::kCustom
  Shape shape;
  Ref memory;  // owns `data`
  std::byte* data = nullptr;
  size_t size = 0;
};
// Returns a new Tensor object. If the bytes do not fit type and shape, its buffer is one of plain bytes. Null
// with an exception set.
PyObject* NewOvmsTensor(OvmsTensorParts parts);

// Reads type and shape from a tensor's attributes. `custom_type` is a view into the tensor. False with an
// exception set for too many dimensions, or a negative one.
bool TypeAndShapeOf(const OvmsTensor& tensor, DataType& type, std::string_view& custom_type, Shape& shape);

}  // namespace braid
