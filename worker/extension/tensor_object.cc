#include "worker/extension/tensor_object.h"

#include "worker/extension/bytes_arrays.h"
#include "worker/extension/dlpack.h"
#include "worker/extension/memory.h"
#include "worker/extension/numpy_arrays.h"
#include "worker/extension/python_state.h"

namespace braid {
namespace {

PyTensor& Self(PyObject* self) { return ValueOf<PyTensor>(self); }

bool TakeName(PyObject* name, PyTensor& tensor) {
  tensor.name = TextArgument(name, "name");
  if (!tensor.name) return false;
  const bool empty = PyUnicode_GetLength(tensor.name.get()) == 0;
  if (empty) RaiseModelException("Tensor name cannot be an empty string.");
  return !empty;
}

int Init(PyObject* self, PyObject* args, PyObject* kwargs) {
  PyTensor& tensor = Self(self);
  PyObject* name = nullptr;
  PyObject* array = nullptr;
  if (PyTuple_Size(args) == 2) {
    name = PyTuple_GetItem(args, 0);
    array = PyTuple_GetItem(args, 1);
  }
  if (name == nullptr || (kwargs != nullptr && PyDict_Size(kwargs) != 0) || !IsText(name) ||
      !IsInstance(array, State().ndarray)) {
    PyErr_SetString(PyExc_TypeError,
                    "Tensor(): incompatible constructor arguments. The following argument types are "
                    "supported:\n    1. Tensor(arg0: str, arg1: numpy.ndarray)");
    return -1;
  }
  PyTensor made;
  ArrayView view;
  if (!TakeName(name, made) || !TakeArray(array, view)) return -1;
  made.type = view.type;
  made.shape = view.shape;
  if (view.type == DataType::kBytes) {
    BytesItems items;
    if (!items.Take(view.array.get())) return -1;
    made.memory = Ref::Steal(NewOwnMemory(items.wire_size(), &made.data));
    if (!made.memory) return -1;
    items.Write(made.data);
    made.size = items.wire_size();
  } else {
    made.data = const_cast<std::byte*>(view.data);
    made.size = view.size;
  }
  made.array = std::move(view.array);
  std::swap(tensor, made);
  return 0;
}

PyObject* Name(PyObject* self, PyObject*) { return Self(self).name.NewOrNone(); }

PyObject* AsNumpy(PyObject* self, PyObject*) {
  PyTensor& tensor = Self(self);
  if (tensor.array) return tensor.array.NewOrNone();
  if (tensor.type == DataType::kInvalid) return RaiseModelException("The tensor was never made.");
  if (tensor.device_type == kDlCuda) {
    return RaiseModelException("Tensor is stored in GPU and cannot be converted to NumPy.");
  }
  if (tensor.type == DataType::kBf16) {
    return RaiseModelException(
        "Tensor dtype is BF16 and cannot be converted to NumPy. Use to_dlpack() and from_dlpack() instead.");
  }
  tensor.array = Ref::Steal(tensor.type == DataType::kBytes
                                ? ArrayFromWire({tensor.data, tensor.size}, tensor.shape)
                                : ArrayOver(tensor.memory.get(), tensor.size, tensor.type, tensor.shape));
  if (!tensor.array) return nullptr;
  return tensor.array.NewOrNone();
}

PyObject* TritonDtype(PyObject* self, PyObject*) {
  return PyLong_FromLong(static_cast<long>(Self(self).type));
}

PyObject* GetShape(PyObject* self, PyObject*) {
  const Shape& shape = Self(self).shape;
  Ref list = Ref::Steal(PyList_New(static_cast<Py_ssize_t>(shape.size())));
  if (!list) return nullptr;
  for (size_t i = 0; i < shape.size(); ++i) {
    PyObject* dim = PyLong_FromLongLong(shape[i]);
    if (dim == nullptr || PyList_SetItem(list.get(), static_cast<Py_ssize_t>(i), dim) != 0) return nullptr;
  }
  return list.Release();
}

PyObject* IsCpu(PyObject* self, PyObject*) { return PyBool_FromLong(Self(self).device_type != kDlCuda); }

PyObject* ToDlpack(PyObject* self, PyObject*) { return CapsuleOfTensor(self, nullptr); }

PyObject* DunderDlpack(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"stream", nullptr};
  PyObject* stream = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:__dlpack__", const_cast<char**>(names), &stream)) {
    return nullptr;
  }
  return CapsuleOfTensor(self, stream);
}

PyObject* DunderDlpackDevice(PyObject* self, PyObject*) {
  return Py_BuildValue("(ii)", Self(self).device_type, Self(self).device_id);
}

PyObject* FromDlpack(PyObject*, PyObject* args) {
  PyObject* name = nullptr;
  PyObject* source = nullptr;
  PyTensor tensor;
  if (!PyArg_ParseTuple(args, "OO:from_dlpack", &name, &source) || !TakeName(name, tensor) ||
      !TakeDlpack(source, tensor)) {
    return nullptr;
  }
  return NewTensor(std::move(tensor));
}

PyMethodDef methods[] = {
    {"name", Name, METH_NOARGS, "The name of the tensor."},
    {"as_numpy", AsNumpy, METH_NOARGS,
     "The tensor as a numpy array: the one it was made from, or a writable view of a received tensor."},
    {"triton_dtype", TritonDtype, METH_NOARGS, "The number of the element type in the model configuration."},
    {"shape", GetShape, METH_NOARGS, "The dimensions, as a list."},
    {"is_cpu", IsCpu, METH_NOARGS, "Whether the bytes are in the machine's memory."},
    {"to_dlpack", ToDlpack, METH_NOARGS, "A DLPack capsule of the tensor, without a copy."},
    {"from_dlpack", FromDlpack, METH_VARARGS | METH_STATIC,
     "from_dlpack(name, object): a tensor over the memory of a DLPack capsule or of an object with "
     "__dlpack__."},
    {"__dlpack__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(DunderDlpack)),
     METH_VARARGS | METH_KEYWORDS, "A DLPack capsule of the tensor, without a copy."},
    {"__dlpack_device__", DunderDlpackDevice, METH_NOARGS, "(device type, device id)"},
    {nullptr, nullptr, 0, nullptr},
};
PyType_Slot slots[] = {
    {Py_tp_new, Slot(NewSlot<PyTensor>)},
    {Py_tp_init, Slot(Init)},
    {Py_tp_dealloc, Slot(DeallocSlot<PyTensor>)},
    {Py_tp_methods, methods},
    {Py_tp_doc, const_cast<char*>("Tensor(name, array): a named tensor.")},
    {0, nullptr},
};
PyType_Spec spec = {"c_python_backend_utils.Tensor", sizeof(Object<PyTensor>), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

}  // namespace

bool AddTensorType(PyObject* module) {
  return (State().tensor_type = AddType(module, spec, "Tensor")) != nullptr;
}

PyObject* NewTensor(PyTensor value) { return NewObject(State().tensor_type, std::move(value)); }

}  // namespace braid
