#include "worker/extension/ovms_tensor.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "worker/extension/memory.h"
#include "worker/extension/numpy_arrays.h"
#include "worker/extension/python_state.h"

namespace braid {
namespace {

// The limit of the message format.
constexpr Py_ssize_t kMaxDims = 64;
// The flag bit that only PyBUF_F_CONTIGUOUS has.
constexpr int kFortranOrder = PyBUF_F_CONTIGUOUS & ~PyBUF_STRIDES;

struct NamedFormat {
  DataType type;
  char format;
};
constexpr std::array<NamedFormat, 12> kFormats = {{
    {DataType::kBool, '?'},
    {DataType::kUint8, 'B'},
    {DataType::kUint16, 'H'},
    {DataType::kUint32, 'I'},
    {DataType::kUint64, 'Q'},
    {DataType::kInt8, 'b'},
    {DataType::kInt16, 'h'},
    {DataType::kInt32, 'i'},
    {DataType::kInt64, 'q'},
    {DataType::kFp16, 'e'},
    {DataType::kFp32, 'f'},
    {DataType::kFp64, 'd'},
}};

// Returns the letter of the struct module; nullopt for types without a Python format.
std::optional<char> FormatOf(DataType type) {
  for (const NamedFormat& named : kFormats) {
    if (named.type == type) return named.format;
  }
  return std::nullopt;
}

// Returns the datatype of a buffer; the format itself if no datatype matches.
std::string_view DatatypeOf(std::string_view format, size_t itemsize) {
  if (format.size() != 1) return format;
  // These have the width of the platform's long.
  if (format[0] == 'l') return itemsize == 8 ? "INT64" : "INT32";
  if (format[0] == 'L') return itemsize == 8 ? "UINT64" : "UINT32";
  for (const NamedFormat& named : kFormats) {
    if (named.format == format[0]) return WireName(named.type);
  }
  return format;
}

void SetStrides(OvmsTensor& tensor) {
  tensor.strides.resize(tensor.dims.size());
  auto stride = static_cast<Py_ssize_t>(tensor.itemsize);
  for (size_t i = tensor.dims.size(); i-- > 0;) {
    tensor.strides[i] = stride;
    stride *= tensor.dims[i];
  }
}

OvmsTensor* Checked(PyObject* self) {
  OvmsTensor& tensor = ValueOf<OvmsTensor>(self);
  if (tensor.constructed()) return &tensor;
  PyErr_SetString(PyExc_RuntimeError, "pyovms.Tensor.__init__() was not called");
  return nullptr;
}

// --- Construction

bool TakeBuffer(OvmsTensor& tensor, PyObject* source) {
  std::unique_ptr<HeldBuffer> held = HeldBuffer::Of(source, PyBUF_FULL_RO);
  if (!held) return false;
  const Py_buffer& view = held->view();
  tensor.format = view.format != nullptr ? view.format : "B";
  if (tensor.format == "O") {
    PyErr_SetString(PyExc_TypeError, "the buffer of a Tensor must contain plain values, not Python objects");
    return false;
  }
  tensor.itemsize = static_cast<size_t>(view.itemsize);
  tensor.size = static_cast<size_t>(view.len);
  if (view.shape != nullptr) {
    tensor.dims.assign(view.shape, view.shape + view.ndim);
  } else if (view.ndim != 0) {
    tensor.dims.assign(1, view.itemsize != 0 ? view.len / view.itemsize : 0);
  }
  if (PyBuffer_IsContiguous(&view, 'C') != 0) {
    if (view.strides != nullptr) {
      tensor.strides.assign(view.strides, view.strides + view.ndim);
    } else {
      SetStrides(tensor);
    }
    tensor.data = static_cast<std::byte*>(view.buf);
    tensor.source = Ref::Share(source);
    tensor.held = std::move(held);
    return true;
  }
  SetStrides(tensor);
  tensor.memory = Ref::Steal(NewOwnMemory(tensor.size, &tensor.data));
  return tensor.memory &&
         PyBuffer_ToContiguous(tensor.data, const_cast<Py_buffer*>(&view), view.len, 'C') == 0;
}

// Converts any sequence of index-like objects to a tuple of int.
PyObject* ShapeFrom(PyObject* sequence) {
  if (PySequence_Check(sequence) == 0) {
    PyErr_Format(PyExc_TypeError, "the shape of a Tensor must be a sequence of int, not %s",
                 TypeText(sequence).c_str());
    return nullptr;
  }
  Ref given = Ref::Steal(PySequence_Tuple(sequence));
  if (!given) return nullptr;
  const Py_ssize_t count = PyTuple_Size(given.get());
  Ref shape = Ref::Steal(PyTuple_New(count));
  if (!shape) return nullptr;
  for (Py_ssize_t i = 0; i < count; ++i) {
    const Py_ssize_t dim = PyNumber_AsSsize_t(PyTuple_GetItem(given.get(), i), PyExc_OverflowError);
    if (dim == -1 && PyErr_Occurred() != nullptr) return nullptr;
    PyObject* number = PyLong_FromSsize_t(dim);
    if (number == nullptr || PyTuple_SetItem(shape.get(), i, number) != 0) return nullptr;
  }
  return shape.Release();
}

PyObject* DimsTuple(const std::vector<Py_ssize_t>& dims) {
  return ShapeTuple(Shape(dims.begin(), dims.end()));
}

// Both names of the second argument are in use; converts one to the other.
bool RenameBuffer(PyObject* kwargs, Ref& renamed) {
  PyObject* buffer = kwargs != nullptr ? PyDict_GetItemString(kwargs, "buffer") : nullptr;
  if (buffer == nullptr) {
    renamed = Ref::Share(kwargs);
    return true;
  }
  if (PyDict_GetItemString(kwargs, "data") != nullptr) {
    PyErr_SetString(PyExc_TypeError, "Tensor() got both 'data' and 'buffer', which are the same argument");
    return false;
  }
  renamed = Ref::Steal(PyDict_Copy(kwargs));
  return renamed && PyDict_SetItemString(renamed.get(), "data", buffer) == 0 &&
         PyDict_DelItemString(renamed.get(), "buffer") == 0;
}

int Init(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"name", "data", "shape", "datatype", nullptr};
  if (ValueOf<OvmsTensor>(self).constructed()) {
    // Another object may have a view of its buffer.
    PyErr_SetString(PyExc_RuntimeError, "a Tensor cannot be initialized again");
    return -1;
  }
  Ref renamed;
  PyObject* name = nullptr;
  PyObject* data = nullptr;
  PyObject* shape = Py_None;
  PyObject* datatype = Py_None;
  if (!RenameBuffer(kwargs, renamed) ||
      !PyArg_ParseTupleAndKeywords(args, renamed.get(), "OO|OO:Tensor", const_cast<char**>(names), &name,
                                   &data, &shape, &datatype)) {
    return -1;
  }
  OvmsTensor tensor;
  tensor.name = TextArgument(name, "name");
  if (!tensor.name) return -1;
  if (datatype != Py_None) {
    tensor.datatype = TextArgument(datatype, "datatype");
    if (!tensor.datatype) return -1;
  }
  if (!TakeBuffer(tensor, data)) return -1;
  tensor.shape = Ref::Steal(shape != Py_None ? ShapeFrom(shape) : DimsTuple(tensor.dims));
  if (!tensor.shape) return -1;
  if (!tensor.datatype) tensor.datatype = Ref::Steal(NewText(DatatypeOf(tensor.format, tensor.itemsize)));
  if (!tensor.datatype) return -1;
  ValueOf<OvmsTensor>(self) = std::move(tensor);
  return 0;
}

// --- The buffer

int GetBuffer(PyObject* self, Py_buffer* view, int flags) {
  view->obj = nullptr;
  OvmsTensor* tensor = Checked(self);
  if (tensor == nullptr) {
    PyErr_Clear();
    PyErr_SetString(PyExc_BufferError, "pyovms.Tensor.__init__() was not called");
    return -1;
  }
  if ((flags & PyBUF_WRITABLE) != 0) {
    PyErr_SetString(PyExc_BufferError, "the buffer of a Tensor is read-only");
    return -1;
  }
  const auto long_dims =
      std::count_if(tensor->dims.begin(), tensor->dims.end(), [](Py_ssize_t dim) { return dim > 1; });
  if ((flags & kFortranOrder) != 0 && long_dims > 1 && tensor->size != 0) {
    PyErr_SetString(PyExc_BufferError, "the buffer of a Tensor is in C order");
    return -1;
  }
  view->buf = tensor->data;
  view->len = static_cast<Py_ssize_t>(tensor->size);
  view->itemsize = static_cast<Py_ssize_t>(tensor->itemsize);
  view->readonly = 1;
  const bool shaped = (flags & PyBUF_ND) != 0;
  // A consumer that does not ask for a shape gets a row of bytes.
  view->ndim = shaped ? static_cast<int>(tensor->dims.size()) : 1;
  view->format = (flags & PyBUF_FORMAT) != 0 ? tensor->format.data() : nullptr;
  view->shape = shaped ? tensor->dims.data() : nullptr;
  view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? tensor->strides.data() : nullptr;
  view->suboffsets = nullptr;
  view->internal = nullptr;
  view->obj = Ref::Share(self).Release();
  return 0;
}

// --- Attributes

PyObject* GetName(PyObject* self, void*) {
  const OvmsTensor* tensor = Checked(self);
  return tensor != nullptr ? tensor->name.NewOrNone() : nullptr;
}
PyObject* GetShape(PyObject* self, void*) {
  const OvmsTensor* tensor = Checked(self);
  return tensor != nullptr ? tensor->shape.NewOrNone() : nullptr;
}
PyObject* GetDatatype(PyObject* self, void*) {
  const OvmsTensor* tensor = Checked(self);
  return tensor != nullptr ? tensor->datatype.NewOrNone() : nullptr;
}
PyObject* GetData(PyObject* self, void*) {
  return Checked(self) != nullptr ? PyMemoryView_FromObject(self) : nullptr;
}
PyObject* GetSize(PyObject* self, void*) {
  const OvmsTensor* tensor = Checked(self);
  return tensor != nullptr ? PyLong_FromSize_t(tensor->size) : nullptr;
}
PyObject* GetRefObj(PyObject* self, void*) {
  const OvmsTensor* tensor = Checked(self);
  return tensor != nullptr ? tensor->source.NewOrNone() : nullptr;
}
PyObject* GetPtr(PyObject* self, void*) {
  const OvmsTensor* tensor = Checked(self);
  if (tensor == nullptr) return nullptr;
  static std::byte nothing;
  PyObject* capsule =
      PyCapsule_New(tensor->data != nullptr ? tensor->data : &nothing, nullptr,
                    [](PyObject* own) { Py_XDECREF(static_cast<PyObject*>(PyCapsule_GetContext(own))); });
  // The address is valid while the capsule lives.
  if (capsule != nullptr) PyCapsule_SetContext(capsule, Ref::Share(self).Release());
  return capsule;
}

PyObject* Repr(PyObject* self) {
  const OvmsTensor* tensor = Checked(self);
  if (tensor == nullptr) return nullptr;
  return PyUnicode_FromFormat("Tensor(name=%R, shape=%R, datatype=%R, size=%zd)", tensor->name.get(),
                              tensor->shape.get(), tensor->datatype.get(),
                              static_cast<Py_ssize_t>(tensor->size));
}

PyGetSetDef attributes[] = {
    {"name", GetName, nullptr, "The name of the stream that it goes to or comes from.", nullptr},
    {"shape", GetShape, nullptr, "A tuple of int: the one given to the constructor, or else the buffer's.",
     nullptr},
    {"datatype", GetDatatype, nullptr,
     "A str: the one given to the constructor, or else from the buffer's format.", nullptr},
    {"data", GetData, nullptr, "A read-only memoryview of the buffer.", nullptr},
    {"size", GetSize, nullptr, "The buffer's size in bytes.", nullptr},
    {"ptr", GetPtr, nullptr, "The address of the data, as an opaque capsule.", nullptr},
    {"ref_obj", GetRefObj, nullptr, "The object that the Tensor is a view of, or None.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_new, Slot(NewSlot<OvmsTensor>)},
    {Py_tp_init, Slot(Init)},
    {Py_tp_dealloc, Slot(DeallocSlot<OvmsTensor>)},
    {Py_tp_repr, Slot(Repr)},
    {Py_tp_getset, attributes},
    {Py_bf_getbuffer, Slot(GetBuffer)},
    {Py_tp_doc,
     const_cast<char*>(
         "Tensor(name, data, shape=None, datatype=None)\n--\n\n"
         "A named, read-only view of `data`, any object with the buffer protocol ('buffer' is another "
         "name of this argument). `shape` and `datatype` change only the attributes, never the buffer.")},
    {0, nullptr},
};
PyType_Spec spec = {"pyovms.Tensor", sizeof(Object<OvmsTensor>), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                    slots};

}  // namespace

std::unique_ptr<HeldBuffer> HeldBuffer::Of(PyObject* object, int flags) {
  std::unique_ptr<HeldBuffer> held(new HeldBuffer);
  // On failure there is no view to release.
  if (PyObject_GetBuffer(object, &held->view_, flags) != 0) return nullptr;
  return held;
}

bool AddOvmsTensorType(PyObject* module) {
  return (State().ovms_tensor_type = AddType(module, spec, "OvmsTensor")) != nullptr;
}

PyObject* NewOvmsTensor(OvmsTensorParts parts) {
  OvmsTensor tensor;
  tensor.name = std::move(parts.name);
  tensor.shape = Ref::Steal(ShapeTuple(parts.shape));
  tensor.datatype = Ref::Steal(
      NewText(parts.type == DataType::kCustom ? parts.custom_type : std::string_view(WireName(parts.type))));
  if (!tensor.name || !tensor.shape || !tensor.datatype) return nullptr;
  tensor.memory = std::move(parts.memory);
  tensor.data = parts.data;
  tensor.size = parts.size;
  const std::optional<char> format = FormatOf(parts.type);
  if (format && ByteSize(parts.type, parts.shape) == parts.size) {
    tensor.format.assign(1, *format);
    tensor.itemsize = ElementSize(parts.type);
    tensor.dims.assign(parts.shape.begin(), parts.shape.end());
  } else {
    tensor.format.assign(1, 'B');
    tensor.dims.assign(1, static_cast<Py_ssize_t>(parts.size));
  }
  SetStrides(tensor);
  return NewObject(State().ovms_tensor_type, std::move(tensor));
}

bool TypeAndShapeOf(const OvmsTensor& tensor, DataType& type, std::string_view& custom_type, Shape& shape) {
  std::string_view name;
  if (!TextOf(tensor.datatype.get(), name)) return false;
  const std::optional<DataType> known = DataTypeFromWireName(name);
  type = known.value_or(DataType::kCustom);
  if (!known) custom_type = name;
  const Py_ssize_t dims = PyTuple_Size(tensor.shape.get());
  if (dims > kMaxDims) {
    PyErr_Format(PyExc_ValueError, "a tensor has %zd dimensions; at most %zd can be sent", dims, kMaxDims);
    return false;
  }
  shape.clear();
  for (Py_ssize_t i = 0; i < dims; ++i) {
    const int64_t dim = PyLong_AsLongLong(PyTuple_GetItem(tensor.shape.get(), i));
    if (dim < 0) {
      PyErr_Format(PyExc_ValueError, "a tensor has the negative dimension %lld", static_cast<long long>(dim));
      return false;
    }
    shape.push_back(dim);
  }
  return true;
}

}  // namespace braid
