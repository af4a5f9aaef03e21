#include "worker/extension/cuda_array.h"

#include <charconv>
#include <cstdint>
#include <memory>
#include <string>

#include "worker/extension/devices.h"
#include "worker/extension/dlpack.h"
#include "worker/extension/memory.h"
#include "worker/extension/numpy_arrays.h"
#include "worker/extension/python_state.h"

namespace braid {
namespace {

constexpr const char* kName = "__cuda_array_interface__";

bool Fail(const std::string& what) {
  if (PyErr_Occurred() == nullptr) RaiseModelException(std::string(kName) + ": " + what);
  return false;
}

// Returns an entry of the dictionary, borrowed; null if it is missing or None.
PyObject* Entry(PyObject* facts, const char* name) {
  PyObject* entry = PyDict_GetItemString(facts, name);
  return entry == Py_None ? nullptr : entry;
}

bool TakeNumbers(PyObject* tuple, Shape& numbers) {
  if (tuple == nullptr || !PyTuple_Check(tuple)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_Size(tuple); ++i) {
    numbers.push_back(PyLong_AsLongLong(PyTuple_GetItem(tuple, i)));
    if (numbers.back() == -1 && PyErr_Occurred() != nullptr) return false;
  }
  return true;
}

// Parses a typestr, such as "<f4" or "|u1".
DataType TypeOfText(PyObject* entry) {
  std::string_view text;
  if (entry == nullptr || !TextOf(entry, text) || text.size() < 3 || text[0] == '>')
    return DataType::kInvalid;
  long size = 0;
  const auto [end, error] = std::from_chars(text.data() + 2, text.data() + text.size(), size);
  if (error != std::errc() || end != text.data() + text.size()) return DataType::kInvalid;
  const DataType type = TypeByKind(text[1], size);
  return type == DataType::kBytes ? DataType::kInvalid : type;
}

bool IsContiguous(const Shape& shape, const Shape& strides, size_t element_size) {
  if (strides.size() != shape.size()) return false;
  auto expected = static_cast<int64_t>(element_size);
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

// Keeps a Python object alive; any thread may release it.
std::shared_ptr<void> Keep(PyObject* object) {
  Py_INCREF(object);
  return {object, [](void* kept) {
            const PyGILState_STATE gil = PyGILState_Ensure();
            Py_DECREF(static_cast<PyObject*>(kept));
            PyGILState_Release(gil);
          }};
}

}  // namespace

bool HasCudaArray(PyObject* source) { return PyObject_HasAttrString(source, kName) != 0; }

bool TakeCudaArray(PyObject* source, PyTensor& tensor) {
  Ref facts = Ref::Steal(PyObject_GetAttrString(source, kName));
  if (!facts || !PyDict_Check(facts.get())) return Fail("it is not a dictionary");
  unsigned long long address = 0;
  int read_only = 0;
  PyObject* data = Entry(facts.get(), "data");
  if (data == nullptr || PyArg_ParseTuple(data, "Kp:data", &address, &read_only) == 0)
    return Fail("it has no 'data'");
  Shape shape;
  Shape strides;
  if (!TakeNumbers(Entry(facts.get(), "shape"), shape)) return Fail("it has no 'shape'");
  const DataType type = TypeOfText(Entry(facts.get(), "typestr"));
  if (type == DataType::kInvalid) return Fail("its 'typestr' is not a tensor type");
  const auto size = ByteSize(type, shape);
  if (!size) return Fail("it has an invalid shape " + ShapeToString(shape));
  if (PyObject* given = Entry(facts.get(), "strides");
      given != nullptr &&
      (!TakeNumbers(given, strides) || (*size > 0 && !IsContiguous(shape, strides, ElementSize(type)))))
    return Fail("only contiguous arrays that are stored in C-Order are supported");
  auto gpu = *size == 0 ? Result<int>(0) : GpuOf(address);
  if (!gpu.ok()) return Fail(gpu.status().message());
  if (PyObject* stream = Entry(facts.get(), "stream"); stream != nullptr) {
    const auto number = static_cast<intptr_t>(PyLong_AsSsize_t(stream));
    if (number == -1 && PyErr_Occurred() != nullptr) return false;
    auto device = DeviceOf(*gpu);
    const Status follows =
        device.ok() ? (*device)->Follow(reinterpret_cast<CudaStream>(number)) : device.status();
    if (!follows.ok()) return Fail(follows.message());
  }
  tensor.data = reinterpret_cast<std::byte*>(static_cast<uintptr_t>(address));
  tensor.size = *size;
  tensor.type = type;
  tensor.device_type = kDlCuda;
  tensor.device_id = *gpu;
  tensor.shape = std::move(shape);
  tensor.memory = Ref::Steal(NewForeignMemory(tensor.data, tensor.size, Keep(source)));
  return static_cast<bool>(tensor.memory);
}

}  // namespace braid
