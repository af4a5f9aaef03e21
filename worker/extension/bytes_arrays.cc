#include "worker/extension/bytes_arrays.h"

#include <cstring>

#include "tensor/bytes_elements.h"
#include "worker/extension/numpy_arrays.h"
#include "worker/extension/python_state.h"

namespace braid {
namespace {

// A buffer of a Python object; released by the destructor.
class BufferView {
 public:
  ~BufferView() {
    if (held_) PyBuffer_Release(&view_);
  }
  bool Get(PyObject* object, int flags) {
    held_ = PyObject_GetBuffer(object, &view_, flags) == 0;
    return held_;
  }
  const Py_buffer* operator->() const { return &view_; }

 private:
  Py_buffer view_{};
  bool held_ = false;
};

std::string_view BytesOf(PyObject* bytes) {
  return {PyBytes_AsString(bytes), static_cast<size_t>(PyBytes_Size(bytes))};
}

bool RaiseTruncated(const BytesElements& elements) {
  RaiseModelException(elements.truncation() == BytesElements::Truncation::kLength
                          ? "Invalid bytes tensor data: incomplete length field"
                          : "Invalid bytes tensor data: string extends beyond buffer");
  return false;
}

size_t CountElements(std::string_view wire, bool& ok) {
  BytesElements elements(wire);
  size_t count = 0;
  while (elements.Next()) ++count;
  ok = !elements.truncated() || RaiseTruncated(elements);
  return count;
}

// Puts the elements into an array of objects that are all None.
bool Fill(PyObject* array, std::string_view wire, size_t count) {
  BufferView view;
  if (!view.Get(array, PyBUF_WRITABLE)) return false;
  auto** items = static_cast<PyObject**>(view->buf);
  BytesElements elements(wire);
  for (size_t i = 0; i < count && elements.Next(); ++i) {
    const std::string_view value = elements.value();
    PyObject* item = PyBytes_FromStringAndSize(value.data(), static_cast<Py_ssize_t>(value.size()));
    if (item == nullptr) return false;
    PyObject* old = std::exchange(items[i], item);
    Py_XDECREF(old);
  }
  return true;
}

}  // namespace

bool BytesItems::Take(PyObject* array) {
  Ref objects = Ref::Share(array);
  if (!IsObjectArray(array)) {
    objects = Ref::Steal(
        PyObject_CallMethod(array, "astype", "O", State().dtypes[static_cast<int>(DataType::kBytes)]));
    if (!objects) return false;
  }
  BufferView view;
  if (!view.Get(objects.get(), PyBUF_SIMPLE)) return false;
  const size_t count = static_cast<size_t>(view->len) / sizeof(PyObject*);
  auto* const* elements = static_cast<PyObject* const*>(view->buf);
  // str() below runs user code, which may change the array. So the loop first takes a reference to each
  // element.
  items_.reserve(count);
  for (size_t i = 0; i < count; ++i) items_.push_back(Ref::Share(elements[i] ? elements[i] : Py_None));
  for (Ref& item : items_) {
    if (!PyBytes_CheckExact(item.get())) {
      Ref text = Ref::Steal(PyObject_Str(item.get()));
      if (!text) return false;
      item = Ref::Steal(PyUnicode_AsUTF8String(text.get()));
      if (!item) return false;
    }
    const auto size = static_cast<size_t>(PyBytes_Size(item.get()));
    if (size > UINT32_MAX) {
      RaiseModelException("An element of a bytes tensor is longer than 4 GiB.");
      return false;
    }
    wire_size_ += sizeof(uint32_t) + size;
  }
  return true;
}

void BytesItems::Write(std::byte* out) const {
  for (const Ref& item : items_) {
    const std::string_view bytes = BytesOf(item.get());
    const auto length = static_cast<uint32_t>(bytes.size());
    std::memcpy(out, &length, sizeof(length));
    out += sizeof(length);
    if (!bytes.empty()) std::memcpy(out, bytes.data(), bytes.size());
    out += bytes.size();
  }
}

PyObject* ArrayFromWire(std::span<const std::byte> wire, const Shape& shape) {
  const std::string_view text(reinterpret_cast<const char*>(wire.data()), wire.size());
  bool ok = true;
  const size_t count = CountElements(text, ok);
  if (!ok) return nullptr;
  const auto expected = ElementCount(shape);
  if (!expected || static_cast<size_t>(*expected) != count) {
    return RaiseModelException("Invalid bytes tensor data: " + std::to_string(count) +
                               " elements do not fit shape " + ShapeToString(shape));
  }
  Ref array = Ref::Steal(NewArray(DataType::kBytes, shape));
  if (!array || !Fill(array.get(), text, count)) return nullptr;
  return array.Release();
}

PyObject* FlatArrayFromWire(std::span<const std::byte> wire) {
  const std::string_view text(reinterpret_cast<const char*>(wire.data()), wire.size());
  bool ok = true;
  const size_t count = CountElements(text, ok);
  if (!ok) return nullptr;
  return ArrayFromWire(wire, Shape{static_cast<int64_t>(count)});
}

PyObject* SerializeByteTensor(PyObject*, PyObject* array) {
  if (!IsInstance(array, State().ndarray)) {
    PyErr_Format(PyExc_TypeError, "serialize_byte_tensor(): expected a numpy array, got %R", Py_TYPE(array));
    return nullptr;
  }
  Ref size = Ref::Steal(PyObject_GetAttrString(array, "size"));
  if (!size) return nullptr;
  if (PyLong_AsLongLong(size.get()) == 0) return PyTuple_New(0);
  Ref ordered = Ref::Steal(PyObject_CallFunctionObjArgs(State().ascontiguousarray, array, nullptr));
  if (!ordered) return nullptr;
  DataType type = DataType::kInvalid;
  if (!TypeOfArray(ordered.get(), type)) {
    if (!PyErr_ExceptionMatches(State().model_exception)) return nullptr;
    PyErr_Clear();
  }
  if (type != DataType::kBytes) Py_RETURN_NONE;
  BytesItems items;
  if (!items.Take(ordered.get())) return nullptr;
  PyObject* bytes = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(items.wire_size()));
  if (bytes != nullptr) items.Write(reinterpret_cast<std::byte*>(PyBytes_AsString(bytes)));
  return bytes;
}

PyObject* DeserializeBytesTensor(PyObject*, PyObject* buffer) {
  BufferView view;
  if (!view.Get(buffer, PyBUF_SIMPLE)) return nullptr;
  return FlatArrayFromWire({static_cast<const std::byte*>(view->buf), static_cast<size_t>(view->len)});
}

}  // namespace braid
