// PythonState: the extension's types, and numpy's callables, each looked up once.
//
// CPython calls a type's slots without context, and the limited API cannot find the module of a subclass. So
// State() returns the only instance; a worker has one interpreter. The GIL guards it.
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
  std::array<PyObject*, kDataTypeCount> dtypes{};  // null if numpy has none
  PyObject* coroutine_type = nullptr;
  PyObject* get_running_loop = nullptr;  // asyncio's
  PyObject* call_future = nullptr;       // braid_worker.futures
  PyObject* settle_future = nullptr;
  PyObject* json_dumps = nullptr;
  PyObject* json_dumps_options = nullptr;

  PyObject* dtype_name = nullptr;  // interned
  PyObject* execute_name = nullptr;
  PyObject* on_first_steps = nullptr;  // functions of the module
  PyObject* on_turn_done = nullptr;

  // Set once the channel is open; null in a plain interpreter. Never freed: its threads run until the process
  // ends.
  Worker* worker = nullptr;
};

PythonState& State();

// Imports numpy and sets its fields. False with an exception set.
bool LoadNumpy();

// Raises TritonModelException. Always returns null, for use in a return statement.
PyObject* RaiseModelException(std::string_view text);

// Creates a type from a spec and adds it to the module. Null with an exception set.
PyTypeObject* AddType(PyObject* module, PyType_Spec& spec, const char* name);

}  // namespace braid
