// The worker's side of the floor: a loop that calls a function of numpy arrays for each call in shared memory.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <sys/mman.h>

#include <cstring>

#include "shared_memory.h"

namespace braid::floor {
namespace {

// Calls the function with arrays over the inputs. The outputs are copied behind the inputs.
bool Answer(Shared* shared, uint32_t slot, PyObject* function, PyObject* as_array) {
  Call& call = shared->calls[slot];
  char* memory = shared->Memory(slot);
  PyObject* arguments = PyTuple_New(static_cast<Py_ssize_t>(call.input_count));
  if (arguments == nullptr) return false;
  uint64_t end = 0;
  for (uint64_t k = 0; k < call.input_count; ++k) {
    const Tensor& input = call.inputs[k];
    end = Aligned(input.at + input.bytes);
    PyObject* view =
        PyMemoryView_FromMemory(memory + input.at, static_cast<Py_ssize_t>(input.bytes), PyBUF_READ);
    PyObject* array = view == nullptr ? nullptr : PyObject_CallFunctionObjArgs(as_array, view, nullptr);
    Py_XDECREF(view);
    if (array == nullptr) return Py_DECREF(arguments), false;
    PyTuple_SetItem(arguments, static_cast<Py_ssize_t>(k), array);
  }
  PyObject* results = PyObject_CallObject(function, arguments);
  Py_DECREF(arguments);
  if (results == nullptr) return false;
  call.output_count = static_cast<uint64_t>(PyTuple_Size(results));
  for (uint64_t k = 0; k < call.output_count; ++k) {
    Py_buffer view;
    if (PyObject_GetBuffer(PyTuple_GetItem(results, static_cast<Py_ssize_t>(k)), &view, PyBUF_SIMPLE) != 0) {
      return Py_DECREF(results), false;
    }
    call.outputs[k] = {end, static_cast<uint64_t>(view.len)};
    std::memcpy(memory + end, view.buf, static_cast<size_t>(view.len));
    end = Aligned(end + static_cast<uint64_t>(view.len));
    PyBuffer_Release(&view);
  }
  Py_DECREF(results);
  return true;
}

PyObject* Serve(PyObject*, PyObject* arguments) {
  int memory_file = -1;
  int wake_up = -1;
  PyObject* function = nullptr;
  PyObject* as_array = nullptr;
  if (!PyArg_ParseTuple(arguments, "iiOO", &memory_file, &wake_up, &function, &as_array)) return nullptr;
  void* mapped = mmap(nullptr, kSharedBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory_file, 0);
  if (mapped == MAP_FAILED) return PyErr_SetFromErrno(PyExc_OSError);
  Shared* shared = static_cast<Shared*>(mapped);
  for (uint32_t read = 0;; ++read) {
    while (shared->requests.written.load(std::memory_order_acquire) == read) {
      Py_BEGIN_ALLOW_THREADS;
      if (shared->requests.PrepareSleep(read)) shared->requests.SleepOnFutex();
      Py_END_ALLOW_THREADS;
      if (PyErr_CheckSignals() != 0) return nullptr;
    }
    const uint32_t slot = shared->requests.slots[read % kSlots];
    if (!Answer(shared, slot, function, as_array)) return nullptr;
    const uint64_t one = 1;
    if (shared->answers.Push(slot) && write(wake_up, &one, sizeof(one)) < 0) {
      return PyErr_SetFromErrno(PyExc_OSError);
    }
  }
}

PyMethodDef kMethods[] = {
    {"serve", Serve, METH_VARARGS,
     "serve(memory_file, wake_up, function, as_array): answers calls until it is killed."},
    {}};
PyModuleDef kModule = {
    PyModuleDef_HEAD_INIT, "braid_floor_worker", nullptr, -1, kMethods, nullptr, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace braid::floor

PyMODINIT_FUNC PyInit_braid_floor_worker() { return PyModule_Create(&braid::floor::kModule); }
