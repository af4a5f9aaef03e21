#include "worker/extension/numpy_arrays.h"

#include "worker/extension/python_state.h"

namespace braid {
namespace {

constexpr std::string_view kUnsupported = "NumPy dtype is not supported.";

bool InspectDtype(PyObject* dtype, DataType& type, bool& native) {
  Ref kind = Ref::Steal(PyObject_GetAttrString(dtype, "kind"));
  Ref size = Ref::Steal(PyObject_GetAttrString(dtype, "itemsize"));
  Ref is_native = Ref::Steal(PyObject_GetAttrString(dtype, "isnative"));
  std::string_view kind_text;
  if (!kind || !size || !is_native || !TextOf(kind.get(), kind_text)) return false;
  type = TypeByKind(kind_text.empty() ? '?' : kind_text[0], PyLong_AsLong(size.get()));
  native = is_native.get() == Py_True;
  if (PyErr_Occurred()) return false;
  if (type == DataType::kInvalid) RaiseModelException(kUnsupported);
  return type != DataType::kInvalid;
}

bool TypeOfArray(PyObject* array, DataType& type, Ref& dtype, bool& native) {
  const PythonState& state = State();
  dtype = Ref::Steal(PyObject_GetAttr(array, state.dtype_name));
  if (!dtype) return false;
  native = true;
  // numpy usually has one object for each builtin type.
  for (size_t i = 0; i < state.dtypes.size(); ++i) {
    if (dtype.get() == state.dtypes[i]) {
      type = static_cast<DataType>(i);
      return true;
    }
  }
  return InspectDtype(dtype.get(), type, native);
}

}  // namespace

DataType TypeByKind(char kind, long size) {
  switch (kind) {
    case 'b':
      return DataType::kBool;
    case 'u':
      return size == 1   ? DataType::kUint8
             : size == 2 ? DataType::kUint16
             : size == 4 ? DataType::kUint32
             : size == 8 ? DataType::kUint64
                         : DataType::kInvalid;
    case 'i':
      return size == 1   ? DataType::kInt8
             : size == 2 ? DataType::kInt16
             : size == 4 ? DataType::kInt32
             : size == 8 ? DataType::kInt64
                         : DataType::kInvalid;
    case 'f':
      return size == 2   ? DataType::kFp16
             : size == 4 ? DataType::kFp32
             : size == 8 ? DataType::kFp64
                         : DataType::kInvalid;
    case 'O':
    case 'S':
      return DataType::kBytes;
    default:
      return DataType::kInvalid;
  }
}

bool TypeOfArray(PyObject* array, DataType& type) {
  Ref dtype;
  bool native = true;
  return TypeOfArray(array, type, dtype, native);
}

bool IsObjectArray(PyObject* array) {
  Ref dtype = Ref::Steal(PyObject_GetAttr(array, State().dtype_name));
  if (!dtype) PyErr_Clear();
  return dtype.get() == State().dtypes[static_cast<int>(DataType::kBytes)];
}

bool TakeArray(PyObject* array, ArrayView& out) {
  Ref dtype;
  bool native = true;
  if (!TypeOfArray(array, out.type, dtype, native)) return false;
  out.array = Ref::Share(array);
  if (!native && out.type != DataType::kBytes) {
    Ref order = Ref::Steal(PyObject_CallMethod(dtype.get(), "newbyteorder", "s", "="));
    if (!order) return false;
    out.array = Ref::Steal(PyObject_CallMethod(array, "astype", "OC", order.get(), 'C'));
    if (!out.array) return false;
  }
  for (int attempt = 0;; ++attempt) {
    Py_buffer view;
    if (PyObject_GetBuffer(out.array.get(), &view, PyBUF_STRIDES) != 0) return false;
    if (PyBuffer_IsContiguous(&view, 'C') || attempt != 0) {
      out.data = static_cast<const std::byte*>(view.buf);
      out.size = static_cast<size_t>(view.len);
      out.shape.assign(view.shape, view.shape + view.ndim);
      PyBuffer_Release(&view);
      return true;
    }
    PyBuffer_Release(&view);
    out.array = Ref::Steal(PyObject_CallFunctionObjArgs(State().ascontiguousarray, out.array.get(), nullptr));
    if (!out.array) return false;
  }
}

PyObject* ShapeTuple(const Shape& shape) {
  Ref tuple = Ref::Steal(PyTuple_New(static_cast<Py_ssize_t>(shape.size())));
  if (!tuple) return nullptr;
  for (size_t i = 0; i < shape.size(); ++i) {
    PyObject* dim = PyLong_FromLongLong(shape[i]);
    if (dim == nullptr || PyTuple_SetItem(tuple.get(), static_cast<Py_ssize_t>(i), dim) != 0) return nullptr;
  }
  return tuple.Release();
}

PyObject* NewArray(DataType type, const Shape& shape) {
  Ref dims = Ref::Steal(ShapeTuple(shape));
  if (!dims) return nullptr;
  return PyObject_CallFunctionObjArgs(State().empty, dims.get(), State().dtypes[static_cast<int>(type)],
                                      nullptr);
}

PyObject* ArrayOver(PyObject* memory, size_t size, DataType type, const Shape& shape) {
  // numpy rejects an empty buffer.
  if (size == 0) return NewArray(type, shape);
  PyObject* dtype = State().dtypes[static_cast<int>(type)];
  if (shape.size() == 1) return PyObject_CallFunctionObjArgs(State().frombuffer, memory, dtype, nullptr);
  Ref dims = Ref::Steal(ShapeTuple(shape));
  if (!dims) return nullptr;
  return PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject*>(State().ndarray), dims.get(), dtype, memory,
                                      nullptr);
}

}  // namespace braid
