// The module _braid_worker: the types that user code sees through pb_utils, and the entry of the run loop.

#include <malloc.h>

#include <csignal>

#include "base/thread.h"
#include "worker/extension/bytes_arrays.h"
#include "worker/extension/memory.h"
#include "worker/extension/python_state.h"
#include "worker/extension/request_object.h"
#include "worker/extension/response_object.h"
#include "worker/extension/sender_object.h"
#include "worker/extension/tensor_object.h"
#include "worker/extension/worker.h"

namespace braid {
namespace {

// Raises RuntimeError and returns null when no channel is open.
Worker* TheWorker() {
  if (State().worker == nullptr) PyErr_SetString(PyExc_RuntimeError, "there is no channel to a server");
  return State().worker;
}

PyObject* RaiseStatus(const Status& status) {
  PyErr_SetString(PyExc_RuntimeError, status.message().c_str());
  return nullptr;
}

PyObject* Connect(PyObject*, PyObject* args) {
  int memory = -1;
  int socket = -1;
  int wake = -1;
  const char* python_version = nullptr;
  const char* numpy_version = nullptr;
  if (!PyArg_ParseTuple(args, "iiiss:connect", &memory, &socket, &wake, &python_version, &numpy_version)) {
    return nullptr;
  }
  Channel::WorkerEnd end{UniqueFd(memory), UniqueFd(socket), UniqueFd(wake)};
  if (State().worker != nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "there is a channel already");
    return nullptr;
  }
  Result<std::unique_ptr<Connection>> opened = Connection::Open(std::move(end));
  if (!opened.ok()) return RaiseStatus(opened.status());
  Connection& connection = *opened.value();
  connection.StartWatching();
  // Lives until the process ends, as its watching thread does.
  State().worker = new Worker(std::move(opened).value());
  HelloMessage hello{python_version, numpy_version};
  std::vector<std::byte> message;
  Encode(message, hello);
  const Status sent = connection.Send(message);
  if (!sent.ok()) return RaiseStatus(sent);
  Py_RETURN_NONE;
}

PyObject* Run(PyObject*, PyObject* host) {
  Worker* worker = TheWorker();
  if (worker == nullptr || !worker->Run(host)) return nullptr;
  Py_RETURN_NONE;
}

PyObject* SetModel(PyObject*, PyObject* args) {
  PyObject* model = nullptr;
  const char* model_file = nullptr;
  const char* instance_name = nullptr;
  PyObject* outputs = nullptr;
  int decoupled = 0;
  if (!PyArg_ParseTuple(args, "OssOp:set_model", &model, &model_file, &instance_name, &outputs, &decoupled)) {
    return nullptr;
  }
  Worker* worker = TheWorker();
  if (worker == nullptr) return nullptr;
  if (!PyObject_TypeCheck(outputs, &PyFrozenSet_Type)) {
    PyErr_SetString(PyExc_TypeError, "set_model(): outputs must be a frozenset");
    return nullptr;
  }
  worker->SetModel(model, model_file, instance_name, outputs, decoupled != 0);
  Py_RETURN_NONE;
}

PyObject* Log(PyObject*, PyObject* args) {
  int level = 0;
  const char* file = nullptr;
  Py_ssize_t file_size = 0;
  unsigned int line = 0;
  PyObject* text = nullptr;
  if (!PyArg_ParseTuple(args, "is#IU:log", &level, &file, &file_size, &line, &text)) return nullptr;
  Ref bytes = Ref::Steal(PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace"));
  Worker* worker = TheWorker();
  if (!bytes || worker == nullptr) return nullptr;
  worker->SendLog(static_cast<uint8_t>(level), {file, static_cast<size_t>(file_size)}, line,
                  {PyBytes_AsString(bytes.get()), static_cast<size_t>(PyBytes_Size(bytes.get()))});
  Py_RETURN_NONE;
}

PyObject* Ask(PyObject*, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"topic", "text", "attachments", "wait", nullptr};
  int topic = 0;
  const char* text = nullptr;
  Py_ssize_t size = 0;
  PyObject* attachments = nullptr;
  int wait = 1;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "is#|Op:ask", const_cast<char**>(names), &topic, &text,
                                   &size, &attachments, &wait)) {
    return nullptr;
  }
  Worker* worker = TheWorker();
  if (worker == nullptr) return nullptr;
  return worker->Ask(static_cast<AskTopic>(topic), {text, static_cast<size_t>(size)}, wait != 0);
}

// Whether this process can talk to a server.
PyObject* IsConnected(PyObject*, PyObject*) {
  const Worker* worker = State().worker;
  return PyBool_FromLong(worker != nullptr && !const_cast<Worker*>(worker)->connection().forked());
}

PyObject* IsServing(PyObject*, PyObject*) {
  return PyBool_FromLong(State().worker != nullptr && State().worker->serving());
}

void IgnoreSignal(int) {}

// What a thread that forks had blocked before.
thread_local sigset_t mask_before_fork;

// A signal that reaches a child before it has the default handlers would be lost; so signals wait until then.
PyObject* BeforeFork(PyObject*, PyObject*) {
  sigset_t both;
  sigemptyset(&both);
  sigaddset(&both, SIGINT);
  sigaddset(&both, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &both, &mask_before_fork);
  Py_RETURN_NONE;
}

PyObject* AfterForkInParent(PyObject*, PyObject*) {
  pthread_sigmask(SIG_SETMASK, &mask_before_fork, nullptr);
  Py_RETURN_NONE;
}

PyObject* AfterForkInChild(PyObject*, PyObject*) {
  if (State().worker != nullptr) State().worker->connection().MarkForked();
  // The children of user code end by signals as any process does; multiprocessing relies on it. Handlers of
  // user code stay.
  for (int signal : {SIGINT, SIGTERM}) {
    struct sigaction action {};
    if (sigaction(signal, nullptr, &action) == 0 && action.sa_handler == IgnoreSignal) {
      std::signal(signal, SIG_DFL);
    }
  }
  pthread_sigmask(SIG_SETMASK, &mask_before_fork, nullptr);
  Py_RETURN_NONE;
}

// A signal to the process group reaches the server, which ends its workers in order. A handler rather than
// SIG_IGN, which the programs that user code starts would inherit.
PyObject* OutliveSignals(PyObject*, PyObject*) {
  struct sigaction action {};
  action.sa_handler = IgnoreSignal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  Py_RETURN_NONE;
}

// The arrays of one execution use the memory of those before: fresh pages cost twenty times a copy. Larger
// ones than this are the system's again, as is what is free beyond it.
PyObject* KeepHeap(PyObject*, PyObject*) {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 64 << 20);
  Py_RETURN_NONE;
}

PyObject* SetProcessName(PyObject*, PyObject* name) {
  std::string_view text;
  if (!PyUnicode_Check(name) || !TextOf(name, text)) {
    PyErr_SetString(PyExc_TypeError, "set_process_name(): expected a str");
    return nullptr;
  }
  SetThreadName(std::string(text));
  Py_RETURN_NONE;
}

// The first tensor of that name in the list that `method` of `owner` returns.
PyObject* FindTensor(PyObject* args, const char* format, const char* method) {
  PyObject* owner = nullptr;
  PyObject* name = nullptr;
  if (!PyArg_ParseTuple(args, format, &owner, &name)) return nullptr;
  Ref tensors;
  if (Py_TYPE(owner) == State().request_type) {
    tensors = ValueOf<PyRequest>(owner).inputs;
  } else if (Py_TYPE(owner) == State().response_type) {
    tensors = ValueOf<PyResponse>(owner).tensors;
  } else {
    Ref list = Ref::Steal(PyObject_CallMethod(owner, method, nullptr));
    if (!list) return nullptr;
    tensors = Ref::Steal(PySequence_List(list.get()));
    if (!tensors) return nullptr;
  }
  const Py_ssize_t count = tensors ? PyList_Size(tensors.get()) : 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* tensor = PyList_GetItem(tensors.get(), i);
    Ref its_name = Py_TYPE(tensor) == State().tensor_type
                       ? ValueOf<PyTensor>(tensor).name
                       : Ref::Steal(PyObject_CallMethod(tensor, "name", nullptr));
    if (!its_name) {
      if (PyErr_Occurred()) return nullptr;
      continue;
    }
    const int equal = PyObject_RichCompareBool(its_name.get(), name, Py_EQ);
    if (equal < 0) return nullptr;
    if (equal == 1) {
      Py_INCREF(tensor);
      return tensor;
    }
  }
  Py_RETURN_NONE;
}

PyObject* GetInputTensorByName(PyObject*, PyObject* args) {
  return FindTensor(args, "OO:get_input_tensor_by_name", "inputs");
}
PyObject* GetOutputTensorByName(PyObject*, PyObject* args) {
  return FindTensor(args, "OO:get_output_tensor_by_name", "output_tensors");
}

PyMethodDef functions[] = {
    {"connect", Connect, METH_VARARGS,
     "connect(memory, socket, wake, python_version, numpy_version): opens the channel to the server."},
    {"run", Run, METH_O, "run(host): answers the server until it says to end."},
    {"set_model", SetModel, METH_VARARGS,
     "set_model(model, model_file, instance_name, outputs, decoupled): what executions go to."},
    {"log", Log, METH_VARARGS, "log(level, file, line, text): a line in the server's log."},
    {"ask", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(Ask)), METH_VARARGS | METH_KEYWORDS,
     "ask(topic, text, attachments=None, wait=True): asks the server something."},
    {"is_connected", IsConnected, METH_NOARGS, "Whether this process has a channel to a server."},
    {"is_serving", IsServing, METH_NOARGS, "Whether a model is between its initialize and finalize."},
    {"before_fork", BeforeFork, METH_NOARGS, "To be called before user code forks."},
    {"after_fork_in_parent", AfterForkInParent, METH_NOARGS, "To be called after user code has forked."},
    {"after_fork_in_child", AfterForkInChild, METH_NOARGS, "To be called in children of user code."},
    {"outlive_signals", OutliveSignals, METH_NOARGS, "Makes SIGINT and SIGTERM do nothing."},
    {"keep_heap", KeepHeap, METH_NOARGS, "Makes the allocator keep the memory of large arrays."},
    {"set_process_name", SetProcessName, METH_O, "The name that ps and top show."},
    {"get_input_tensor_by_name", GetInputTensorByName, METH_VARARGS,
     "get_input_tensor_by_name(request, name): the input of that name, or None."},
    {"get_output_tensor_by_name", GetOutputTensorByName, METH_VARARGS,
     "get_output_tensor_by_name(response, name): the output of that name, or None."},
    {"serialize_byte_tensor", SerializeByteTensor, METH_O,
     "The wire form of an array of bytes: for each element its length and its bytes."},
    {"deserialize_bytes_tensor", DeserializeBytesTensor, METH_O,
     "The one-dimensional array of bytes of a wire form."},
    {nullptr, nullptr, 0, nullptr},
};

bool AddModelException(PyObject* module) {
  PyObject* exception =
      PyErr_NewExceptionWithDoc("c_python_backend_utils.TritonModelException",
                                "Raised by pb_utils, and by models.", PyExc_Exception, nullptr);
  State().model_exception = exception;
  return exception != nullptr && PyModule_AddObjectRef(module, "TritonModelException", exception) == 0;
}

bool LoadHelpers() {
  PythonState& state = State();
  state.dtype_name = PyUnicode_InternFromString("dtype");
  state.execute_name = PyUnicode_InternFromString("execute");
  Ref types = Ref::Steal(PyImport_ImportModule("types"));
  Ref json = Ref::Steal(PyImport_ImportModule("json"));
  if (!state.dtype_name || !state.execute_name || !types || !json) return false;
  state.coroutine_type = PyObject_GetAttrString(types.get(), "CoroutineType");
  state.json_dumps = PyObject_GetAttrString(json.get(), "dumps");
  state.json_dumps_options = Py_BuildValue("{s:(ss),s:O}", "separators", ",", ":", "ensure_ascii", Py_False);
  return state.coroutine_type && state.json_dumps && state.json_dumps_options;
}

int Exec(PyObject* module) {
  const bool ok = LoadHelpers() && LoadNumpy() && AddModelException(module) && AddMemoryType(module) &&
                  AddTensorType(module) && AddRequestType(module) && AddResponseTypes(module) &&
                  AddSenderType(module);
  return ok ? 0 : -1;
}

PyModuleDef_Slot module_slots[] = {{Py_mod_exec, Slot(Exec)}, {0, nullptr}};
PyModuleDef module_definition = {PyModuleDef_HEAD_INIT,
                                 "_braid_worker",
                                 "The native part of Braid's Python worker.",
                                 0,
                                 functions,
                                 module_slots,
                                 nullptr,
                                 nullptr,
                                 nullptr};

}  // namespace
}  // namespace braid

PyMODINIT_FUNC PyInit__braid_worker() { return PyModuleDef_Init(&braid::module_definition); }
