// What the extension keeps of the interpreter: its types, and numpy's callables, each looked up once.
//
// CPython calls a type's slots without any context, and the limited API cannot find a module from a subclass;
// so this one structure is reached through a function. There is one interpreter in a worker. The GIL guards
// it.
#pragma once

#include <array>

#include "tensor/data_type.h"
#include "worker/extension/py.h"

namespace braid {

class Worker;

struct PythonState {
  PyTypeObject* memory_type = nullptr;
  PyTypeObject* tensor_type = nullptr;
  PyTypeObject* request_type = nullptr;
  PyTypeObject* response_type = nullptr;
  PyTypeObject* error_type = nullptr;
  PyTypeObject* sender_type = nullptr;
  PyTypeObject* iterator_type = nullptr;
  PyTypeObject* ovms_tensor_type = nullptr;
  PyObject* model_exception = nullptr;  // TritonModelException
  PyObject* error_code_type = nullptr;  // TritonError's enum
  std::array<PyObject*, 8> error_codes{};

  PyTypeObject* ndarray = nullptr;
  PyObject* frombuffer = nullptr;
  PyObject* empty = nullptr;
  PyObject* ascontiguousarray = nullptr;
  std::array<PyObject*, kDataTypeCount> dtypes{};  // null where numpy has none
  PyObject* coroutine_type = nullptr;
  PyObject* get_running_loop = nullptr;  // asyncio's
  PyObject* call_future = nullptr;       // braid_worker.futures
  PyObject* settle_future = nullptr;
  PyObject* json_dumps = nullptr;
  PyObject* json_dumps_options = nullptr;

  PyObject* dtype_name = nullptr;  // interned "dtype"
  PyObject* execute_name = nullptr;
  PyObject* on_first_steps = nullptr;  // functions of the module
  PyObject* on_turn_done = nullptr;

  // Set once the channel is open; null in a plain interpreter. Never freed: its threads end with the process.
  Worker* worker = nullptr;
};

PythonState& State();

// Imports numpy and fills its part. False with an exception set.
bool LoadNumpy();

// Raises TritonModelException. Returns null, for the callers' return.
PyObject* RaiseModelException(std::string_view text);

// Creates a type from a spec and adds it to the module; null with an exception set.
PyTypeObject* AddType(PyObject* module, PyType_Spec& spec, const char* name);

}  // namespace braid
