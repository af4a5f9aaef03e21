#include "worker/extension/memory.h"

#include "worker/extension/python_state.h"

namespace braid {
namespace {

struct MemoryObject {
  PyVarObject head;
  std::byte* data;
  size_t size;
  std::shared_ptr<void> keeper;  // shared because several tensors may lie in one block
};
// Owned bytes follow the object, aligned to 16 for numpy.
constexpr size_t kOwnBytesAt = (sizeof(MemoryObject) + 15) / 16 * 16;

MemoryObject* NewMemory(size_t own_bytes) {
  PyTypeObject* type = State().memory_type;
  auto allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
  auto* object = reinterpret_cast<MemoryObject*>(allocate(type, static_cast<Py_ssize_t>(own_bytes)));
  if (object != nullptr) new (&object->keeper) std::shared_ptr<void>;
  return object;
}

void Dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  reinterpret_cast<MemoryObject*>(self)->keeper.~shared_ptr();
  PyObject_Free(self);
  Py_DECREF(type);
}

// Without a releasebuffer slot, numpy refers to the object itself instead of a memoryview.
int GetBuffer(PyObject* self, Py_buffer* view, int flags) {
  auto* memory = reinterpret_cast<MemoryObject*>(self);
  return PyBuffer_FillInfo(view, self, memory->data, static_cast<Py_ssize_t>(memory->size), 0, flags);
}

PyType_Slot slots[] = {
    {Py_tp_dealloc, Slot(Dealloc)},
    {Py_bf_getbuffer, Slot(GetBuffer)},
    {Py_tp_doc, const_cast<char*>("The memory of a tensor.")},
    {0, nullptr},
};
PyType_Spec spec = {"_braid_worker.Memory", kOwnBytesAt, 1,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

}  // namespace

bool AddMemoryType(PyObject* module) {
  return (State().memory_type = AddType(module, spec, "Memory")) != nullptr;
}

PyObject* NewOwnMemory(size_t size, std::byte** data) {
  MemoryObject* object = NewMemory(size);
  if (object == nullptr) return nullptr;
  object->data = reinterpret_cast<std::byte*>(object) + kOwnBytesAt;
  object->size = size;
  *data = object->data;
  return reinterpret_cast<PyObject*>(object);
}

PyObject* NewForeignMemory(std::byte* data, size_t size, std::shared_ptr<void> keeper) {
  MemoryObject* object = NewMemory(0);
  if (object == nullptr) return nullptr;
  object->data = data;
  object->size = size;
  object->keeper = std::move(keeper);
  return reinterpret_cast<PyObject*>(object);
}

}  // namespace braid
