#include "worker/extension/dlpack.h"

#include <cstdint>
#include <memory>

#include "worker/extension/cuda_array.h"
#include "worker/extension/devices.h"
#include "worker/extension/memory.h"
#include "worker/extension/python_state.h"

namespace braid {
namespace {

struct DLDevice {
  int32_t device_type;
  int32_t device_id;
};
struct DLDataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};

enum DLCode : uint8_t { kDlInt = 0, kDlUint = 1, kDlFloat = 2, kDlBfloat = 4, kDlBool = 6 };

constexpr const char* kName = "dltensor";
constexpr const char* kUsedName = "used_dltensor";

bool CodeOf(DataType type, uint8_t& code) {
  switch (type) {
    case DataType::kBool:
      code = kDlBool;
      return true;
    case DataType::kUint8:
    case DataType::kUint16:
    case DataType::kUint32:
    case DataType::kUint64:
      code = kDlUint;
      return true;
    case DataType::kInt8:
    case DataType::kInt16:
    case DataType::kInt32:
    case DataType::kInt64:
      code = kDlInt;
      return true;
    case DataType::kFp16:
    case DataType::kFp32:
    case DataType::kFp64:
      code = kDlFloat;
      return true;
    case DataType::kBf16:
      code = kDlBfloat;
      return true;
    case DataType::kCustom:
    case DataType::kBytes:
    case DataType::kInvalid:
      return false;
  }
  return false;
}

DataType TypeOf(const DLDataType& dtype) {
  if (dtype.lanes != 1) return DataType::kInvalid;
  for (uint8_t i = 1; i < kDataTypeCount; ++i) {
    const auto type = static_cast<DataType>(i);
    uint8_t code = 0;
    if (CodeOf(type, code) && code == dtype.code && ElementSize(type) * 8 == dtype.bits) return type;
  }
  return DataType::kInvalid;
}

// The owner behind an exported capsule.
struct Export {
  DLManagedTensor managed{};
  Ref tensor;
  Shape shape;
};

// Consumers call it on any thread, with or without the GIL.
void DeleteExport(DLManagedTensor* managed) {
  const PyGILState_STATE gil = PyGILState_Ensure();
  delete static_cast<Export*>(managed->manager_ctx);
  PyGILState_Release(gil);
}

// A capsule without a consumer still owns its tensor.
void DropCapsule(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, kName)) return;
  auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, kName));
  managed->deleter(managed);
}

bool Raise(const Status& status) {
  RaiseModelException(status.message());
  return false;
}

// Converts a stream of the protocol: its address, or 1 for the default stream and 2 for the thread's.
CudaStream StreamOf(intptr_t number) { return reinterpret_cast<CudaStream>(number); }
constexpr intptr_t kDefaultStream = 1;
constexpr intptr_t kNoOrder = -1;

// Makes `stream` of the consumer wait for the data on the device.
bool MakeWait(int gpu, PyObject* stream) {
  intptr_t number = kDefaultStream;
  if (stream != nullptr && stream != Py_None) {
    number = static_cast<intptr_t>(PyLong_AsSsize_t(stream));
    if (number == kNoOrder && PyErr_Occurred() != nullptr) return false;
  }
  if (number == kNoOrder) return true;
  auto device = DeviceOf(gpu);
  const Status led = device.ok() ? (*device)->Lead(StreamOf(number)) : device.status();
  return led.ok() || Raise(led);
}

// Calls __dlpack_device__().
bool DeviceOfProducer(PyObject* source, DLDevice& device) {
  Ref pair = Ref::Steal(PyObject_CallMethod(source, "__dlpack_device__", nullptr));
  return pair &&
         PyArg_ParseTuple(pair.get(), "ii:__dlpack_device__", &device.device_type, &device.device_id) != 0;
}

// Returns the capsule of an object with __dlpack__(). On a GPU, asks it to order its work before the worker's
// stream.
Ref CapsuleOfProducer(PyObject* source) {
  DLDevice from{};
  if (!DeviceOfProducer(source, from)) return {};
  if (from.device_type != kDlCuda) return Ref::Steal(PyObject_CallMethod(source, "__dlpack__", nullptr));
  auto device = DeviceOf(from.device_id);
  if (!device.ok()) {
    Raise(device.status());
    return {};
  }
  Ref method = Ref::Steal(PyObject_GetAttrString(source, "__dlpack__"));
  Ref none = Ref::Steal(PyTuple_New(0));
  Ref stream = Ref::Steal(Py_BuildValue(
      "{s:n}", "stream", static_cast<Py_ssize_t>(reinterpret_cast<intptr_t>((*device)->stream()))));
  if (!method || !none || !stream) return {};
  return Ref::Steal(PyObject_Call(method.get(), none.get(), stream.get()));
}

bool IsContiguous(const DLTensor& tensor) {
  if (tensor.strides == nullptr) return true;
  // The stride of a dimension of size 1 is irrelevant.
  int64_t expected = 1;
  for (int32_t i = tensor.ndim - 1; i >= 0; --i) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != expected) return false;
    expected *= tensor.shape[i];
  }
  return true;
}

}  // namespace

PyObject* CapsuleOfTensor(PyObject* object, PyObject* stream) {
  PyTensor& tensor = ValueOf<PyTensor>(object);
  if (tensor.device_type == kDlCuda && !MakeWait(tensor.device_id, stream)) return nullptr;
  uint8_t code = 0;
  if (!CodeOf(tensor.type, code)) {
    return RaiseModelException("DLPack does not have support for string tensors.");
  }
  auto exported = std::make_unique<Export>();
  exported->tensor = Ref::Share(object);
  exported->shape = tensor.shape;
  DLTensor& out = exported->managed.dl_tensor;
  out.data = tensor.data;
  out.device = {tensor.device_type, tensor.device_id};
  out.ndim = static_cast<int32_t>(exported->shape.size());
  out.dtype = {code, static_cast<uint8_t>(ElementSize(tensor.type) * 8), 1};
  out.shape = exported->shape.data();
  exported->managed.manager_ctx = exported.get();
  exported->managed.deleter = DeleteExport;
  PyObject* capsule = PyCapsule_New(&exported->managed, kName, DropCapsule);
  if (capsule != nullptr) static_cast<void>(exported.release());  // the capsule owns it now
  return capsule;
}

bool TakeDlpack(PyObject* source, PyTensor& tensor) {
  Ref capsule = Ref::Share(source);
  if (!PyCapsule_CheckExact(source)) {
    if (!PyObject_HasAttrString(source, "__dlpack__") ||
        !PyObject_HasAttrString(source, "__dlpack_device__")) {
      if (HasCudaArray(source)) return TakeCudaArray(source, tensor);
      RaiseModelException(
          "Provided tensor is not supported. Tensor must be a DLPack capsule                     or have "
          "`__dlpack__` and `__dlpack_device__` attributes");
      return false;
    }
    capsule = CapsuleOfProducer(source);
    if (!capsule) return false;
  }
  if (!PyCapsule_IsValid(capsule.get(), kName)) {
    RaiseModelException("Unexpected DLPack capsule: it is not named 'dltensor', or was consumed already.");
    return false;
  }
  auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule.get(), kName));
  const DLTensor& in = managed->dl_tensor;
  if (in.device.device_type != kDlCpu && in.device.device_type != kDlCudaHost &&
      in.device.device_type != kDlCuda) {
    RaiseModelException("DLDevice type " + std::to_string(in.device.device_type) +
                        " is not support by Python backend.");
    return false;
  }
  const DataType type = TypeOf(in.dtype);
  if (type == DataType::kInvalid) {
    RaiseModelException("DLPack data type with code " + std::to_string(in.dtype.code) + " and " +
                        std::to_string(in.dtype.bits) + " bits is not supported.");
    return false;
  }
  Shape shape;
  for (int32_t i = 0; i < in.ndim; ++i) shape.push_back(in.shape[i]);
  const auto size = ByteSize(type, shape);
  if (!size) {
    RaiseModelException("DLPack tensor has an invalid shape " + ShapeToString(shape) + ".");
    return false;
  }
  // Strides of an empty tensor are irrelevant, and differ between producers.
  if (*size > 0 && !IsContiguous(in)) {
    RaiseModelException(
        "DLPack tensor is not contiguous. Only contiguous DLPack tensors that are stored in C-Order are "
        "supported.");
    return false;
  }
  if (in.device.device_type == kDlCuda && capsule.get() == source) {
    auto device = DeviceOf(in.device.device_id);
    const Status follows = device.ok() ? (*device)->Follow(StreamOf(kDefaultStream)) : device.status();
    if (!follows.ok()) return Raise(follows);
  }
  // The capsule's destructor does nothing under the new name, so the tensor now belongs to this function.
  if (PyCapsule_SetName(capsule.get(), kUsedName) != 0) return false;
  std::shared_ptr<void> keeper(managed, [](void* pointer) {
    auto* taken = static_cast<DLManagedTensor*>(pointer);
    if (taken->deleter != nullptr) taken->deleter(taken);
  });
  tensor.data = static_cast<std::byte*>(in.data) + in.byte_offset;
  tensor.size = *size;
  tensor.type = type;
  tensor.device_type = in.device.device_type;
  tensor.device_id = in.device.device_id;
  tensor.shape = std::move(shape);
  tensor.memory = Ref::Steal(NewForeignMemory(tensor.data, tensor.size, std::move(keeper)));
  return static_cast<bool>(tensor.memory);
}

}  // namespace braid
