// pyovms.Tensor: what Python nodes of graphs take and give. A read-only view of bytes, with a name, a shape
// and a datatype that say what they mean; these need not fit the bytes.
//
// Made by user code, it is a view of the object that it was made from, which it keeps and keeps from being
// resized; only what is not in C order is copied, once. Made for an execution, it is a view of the memory
// that the server has lent, which goes back with the last view.
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

// A buffer of another object, given back in the end. It stays where it is, as its fields may point to it.
class HeldBuffer {
 public:
  // Null with an exception set when the object has none, or not this way.
  static std::unique_ptr<HeldBuffer> Of(PyObject* object, int flags);
  ~HeldBuffer() { PyBuffer_Release(&view_); }
  HeldBuffer(const HeldBuffer&) = delete;
  HeldBuffer& operator=(const HeldBuffer&) = delete;
  const Py_buffer& view() const { return view_; }

 private:
  HeldBuffer() = default;
  Py_buffer view_{};
};

// The value of a Tensor object. Set once, by its constructor; nothing of it moves while the object lives.
struct OvmsTensor {
  // The attributes; null before the constructor has run.
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

  // What the bytes lie in: an object of user code's, whose buffer is held, or memory of this extension.
  Ref source;
  std::unique_ptr<HeldBuffer> held;
  Ref memory;

  bool constructed() const { return static_cast<bool>(datatype); }
};

bool AddOvmsTensorType(PyObject* module);

// What a tensor of a request is made of.
struct OvmsTensorParts {
  Ref name;
  DataType type = DataType::kInvalid;
  std::string_view custom_type;  // of DataType::kCustom
  Shape shape;
  Ref memory;  // what `data` lies in
  std::byte* data = nullptr;
  size_t size = 0;
};
// A new Tensor object. Where the bytes are not those of the type and the shape, the buffer is one of plain
// bytes. Null with an exception set.
PyObject* NewOvmsTensor(OvmsTensorParts parts);

// The type and shape that a tensor's attributes say. `custom_type` is a view of the tensor's. False with an
// exception set when there are too many dimensions, or one that is negative.
bool TypeAndShapeOf(const OvmsTensor& tensor, DataType& type, std::string_view& custom_type, Shape& shape);

}  // namespace braid
