// The module _braid_worker: the types behind pb_utils, and the entry point of the main loop.

#include <malloc.h>
#include <sys/prctl.h>

#include <csignal>

#include "base/landlock.h"
#include "base/machine_paths.h"
#include "base/thread.h"
#include "worker/extension/bytes_arrays.h"
#include "worker/extension/memory.h"
#include "worker/extension/node_functions.h"
#include "worker/extension/ovms_tensor.h"
#include "worker/extension/python_state.h"
#include "worker/extension/request_object.h"
#include "worker/extension/response_iterator.h"
#include "worker/extension/response_object.h"
#include "worker/extension/sender_object.h"
#include "worker/extension/tensor_object.h"
#include "worker/extension/worker.h"

namespace braid {
namespace {

// Raises RuntimeError and returns null if no channel is open.
Worker* TheWorker() {
  Worker* worker = CurrentWorker();
  if (worker == nullptr) PyErr_SetString(PyExc_RuntimeError, "there is no channel to a server");
  return worker;
}

PyObject* RaiseStatus(const Status& status) {
  PyErr_SetString(PyExc_RuntimeError, status.message().c_str());
  return nullptr;
}

// The workers of host(), by number. Their objects outlive them, so they are never freed.
std::vector<Worker*>& Hosted() {
  static auto& hosted = *new std::vector<Worker*>();
  return hosted;
}

enum class Opening : unsigned char { kConnect, kReconnect, kHost };

// Opens the channel of connect(), reconnect() and host().
PyObject* OpenChannel(PyObject* args, const char* format, Opening opening) {
  int memory = -1;
  int socket = -1;
  int wake = -1;
  const char* python_version = nullptr;
  const char* numpy_version = nullptr;
  if (!PyArg_ParseTuple(args, format, &memory, &socket, &wake, &python_version, &numpy_version))
    return nullptr;
  Channel::WorkerEnd end{UniqueFd(memory), UniqueFd(socket), UniqueFd(wake)};
  const bool again = opening == Opening::kReconnect;
  const bool right =
      again ? State().worker != nullptr && State().worker->forked() : State().worker == nullptr;
  if (!right && opening != Opening::kHost) {
    PyErr_SetString(PyExc_RuntimeError, again ? "this process is not a fork" : "the channel already exists");
    return nullptr;
  }
  Result<std::unique_ptr<Connection>> opened = Connection::Open(std::move(end));
  if (!opened.ok()) return RaiseStatus(opened.status());
  Connection& connection = *opened.value();
  Status watched;
  if (again) {
    watched = connection.StartWatching(Connection::Alone::kEndsFamily);
    if (watched.ok()) State().worker->Become(std::move(opened).value());
  } else {
    // Lives until the process ends, like its watching thread.
    auto* worker = new Worker(std::move(opened).value());
    Connection::OnGone on_gone;
    if (opening == Opening::kHost) on_gone = [worker] { worker->inbox().Break("the server is gone"); };
    watched = connection.StartWatching(Connection::Alone::kEndsFamily, std::move(on_gone));
    if (watched.ok()) State().worker = worker;
  }
  if (!watched.ok()) return RaiseStatus(watched);
  if (opening == Opening::kHost) {
    SelectWorker(State().worker);
    Hosted().push_back(State().worker);
  }
  HelloMessage hello{python_version, numpy_version};
  std::vector<std::byte> message;
  Encode(message, hello);
  const Status sent = connection.Send(message);
  if (!sent.ok()) return RaiseStatus(sent);
  if (opening == Opening::kHost) return PyLong_FromSize_t(Hosted().size() - 1);
  Py_RETURN_NONE;
}

PyObject* Connect(PyObject*, PyObject* args) { return OpenChannel(args, "iiiss:connect", Opening::kConnect); }
PyObject* Reconnect(PyObject*, PyObject* args) {
  return OpenChannel(args, "iiiss:reconnect", Opening::kReconnect);
}
PyObject* Host(PyObject*, PyObject* args) { return OpenChannel(args, "iiiss:host", Opening::kHost); }

// Returns the worker of a number that host() has returned. Null with an exception set.
Worker* HostedWorker(PyObject* number) {
  const size_t at = PyLong_AsSize_t(number);
  if (PyErr_Occurred() != nullptr) return nullptr;
  if (at < Hosted().size()) return Hosted()[at];
  PyErr_SetString(PyExc_ValueError, "host() has returned no such number");
  return nullptr;
}

// Returns the number of a worker of host(); None for others.
PyObject* NumberOf(const Worker* worker) {
  const auto found = std::ranges::find(Hosted(), worker);
  if (found == Hosted().end()) Py_RETURN_NONE;
  return PyLong_FromSsize_t(found - Hosted().begin());
}

PyObject* Select(PyObject*, PyObject* number) {
  Worker* worker = nullptr;
  if (number != Py_None) {
    worker = HostedWorker(number);
    if (worker == nullptr) return nullptr;
  }
  return NumberOf(SelectWorker(worker));
}

PyObject* Retire(PyObject*, PyObject* number) {
  Worker* worker = HostedWorker(number);
  if (worker == nullptr) return nullptr;
  worker->Retire();
  if (State().worker == worker) State().worker = nullptr;
  Py_RETURN_NONE;
}

PyObject* SetFutures(PyObject*, PyObject* args) {
  PyObject* make = nullptr;
  PyObject* settle = nullptr;
  if (!PyArg_ParseTuple(args, "OO:set_futures", &make, &settle)) return nullptr;
  State().call_future = Ref::Share(make).Release();
  State().settle_future = Ref::Share(settle).Release();
  Py_RETURN_NONE;
}

PyObject* Run(PyObject*, PyObject* host) {
  Worker* worker = TheWorker();
  if (worker == nullptr || !worker->Run(host)) return nullptr;
  Py_RETURN_NONE;
}

PyObject* SetModel(PyObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"model",     "model_file", "instance_name",   "outputs", "decoupled",
                                "iterative", "coroutine",  "saves_sequences", nullptr};
  PyObject* model = nullptr;
  const char* model_file = nullptr;
  const char* instance_name = nullptr;
  PyObject* outputs = nullptr;
  int decoupled = 0;
  int iterative = 0;
  int coroutine = 0;
  int saves_sequences = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "$OssOpppp:set_model", const_cast<char**>(names), &model,
                                   &model_file, &instance_name, &outputs, &decoupled, &iterative, &coroutine,
                                   &saves_sequences)) {
    return nullptr;
  }
  Worker* worker = TheWorker();
  if (worker == nullptr) return nullptr;
  if (!PyObject_TypeCheck(outputs, &PyFrozenSet_Type)) {
    PyErr_SetString(PyExc_TypeError, "set_model(): outputs must be a frozenset");
    return nullptr;
  }
  worker->SetModel({Ref::Share(model), Ref::Share(outputs), model_file, instance_name, decoupled != 0,
                    iterative != 0, coroutine != 0, saves_sequences != 0});
  Py_RETURN_NONE;
}

PyObject* SetLoop(PyObject*, PyObject* loop) {
  Worker* worker = TheWorker();
  if (worker == nullptr) return nullptr;
  worker->SetLoop(loop);
  Py_RETURN_NONE;
}

PyObject* InstanceName(PyObject*, PyObject*) {
  const Worker* worker = CurrentWorker();
  return NewText(worker != nullptr ? std::string_view(worker->model().instance_name) : std::string_view());
}

PyObject* WakeFd(PyObject*, PyObject*) {
  Worker* worker = TheWorker();
  return worker != nullptr ? PyLong_FromLong(worker->connection().channel().wake_fd()) : nullptr;
}

PyObject* OnWake(PyObject*, PyObject*) {
  CurrentWorker()->OnWake();
  Py_RETURN_NONE;
}

PyObject* OnTimer(PyObject*, PyObject*) {
  CurrentWorker()->OnTimer();
  Py_RETURN_NONE;
}

PyObject* OnFirstSteps(PyObject*, PyObject*) {
  CurrentWorker()->OnFirstSteps();
  Py_RETURN_NONE;
}

PyObject* OnTurnDone(PyObject*, PyObject* task) {
  CurrentWorker()->OnTurnDone(task);
  Py_RETURN_NONE;
}

PyObject* CancelCall(PyObject*, PyObject* id) {
  Worker* worker = TheWorker();
  if (worker == nullptr) return nullptr;
  const uint64_t number = PyLong_AsUnsignedLongLong(id);
  if (PyErr_Occurred()) return nullptr;
  worker->calls().CancelAwaited(number);
  Py_RETURN_NONE;
}

PyObject* ReportReadiness(PyObject*, PyObject* args) {
  unsigned long long check = 0;
  int ready = 0;
  const char* reason = nullptr;
  Py_ssize_t size = 0;
  if (!PyArg_ParseTuple(args, "Kps#:report_readiness", &check, &ready, &reason, &size)) return nullptr;
  Worker* worker = TheWorker();
  if (worker == nullptr) return nullptr;
  worker->SendReadiness(check, ready != 0, {reason, static_cast<size_t>(size)});
  Py_RETURN_NONE;
}

// Takes views of a dict of str to bytes; the dict owns them.
bool TakeAttachments(PyObject* dict, AskMessage& message) {
  PyObject* key = nullptr;
  PyObject* value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value) != 0;) {
    AskMessage::Attachment& attachment = message.attachments.emplace_back();
    if (!PyUnicode_Check(key) || !PyBytes_Check(value)) {
      PyErr_SetString(PyExc_TypeError, "ask(): attachments must be a dict of str to bytes");
      return false;
    }
    if (!TextOf(key, attachment.name)) return false;
    attachment.bytes = {reinterpret_cast<const std::byte*>(PyBytes_AsString(value)),
                        static_cast<size_t>(PyBytes_Size(value))};
  }
  return true;
}

PyObject* Ask(PyObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"topic", "text", "attachments", "wait", nullptr};
  int topic = 0;
  const char* text = nullptr;
  Py_ssize_t size = 0;
  PyObject* attachments = Py_None;
  int wait = 1;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "is#|Op:ask", const_cast<char**>(names), &topic, &text,
                                   &size, &attachments, &wait)) {
    return nullptr;
  }
  if (attachments != Py_None && !PyDict_Check(attachments)) {
    PyErr_SetString(PyExc_TypeError, "ask(): attachments must be a dict of str to bytes");
    return nullptr;
  }
  Worker* worker = CurrentWorker();
  if (worker == nullptr) return RaiseModelException("This process has no channel to a server.");
  AskMessage message;
  message.topic = static_cast<AskTopic>(topic);
  message.text = {text, static_cast<size_t>(size)};
  if (attachments != Py_None && !TakeAttachments(attachments, message)) return nullptr;
  return worker->Ask(message, wait != 0);
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

// Whether this process is connected to a server.
PyObject* IsConnected(PyObject*, PyObject*) {
  Worker* worker = CurrentWorker();
  return PyBool_FromLong(worker != nullptr && worker->connection().CheckOpen().ok());
}

PyObject* IsServing(PyObject*, PyObject*) {
  return PyBool_FromLong(CurrentWorker() != nullptr && CurrentWorker()->serving());
}

PyObject* TextWithoutPaths(PyObject*, PyObject* args) {
  const char* text = nullptr;
  Py_ssize_t size = 0;
  PyObject* folders = nullptr;
  if (!PyArg_ParseTuple(args, "s#O:without_paths", &text, &size, &folders)) return nullptr;
  Ref list = Ref::Steal(PySequence_List(folders));
  if (!list) return nullptr;
  std::vector<std::string> roots;
  for (Py_ssize_t i = 0; i < PyList_Size(list.get()); ++i) {
    std::string_view root;
    if (TextOf(PyList_GetItem(list.get(), i), root)) roots.emplace_back(root);
    PyErr_Clear();  // sys.path may contain other objects
  }
  return NewText(WithoutMachinePaths({text, static_cast<size_t>(size)}, roots));
}

// Converts a text argument, for modules written in Python.
PyObject* TakeTextArgument(PyObject*, PyObject* args) {
  PyObject* text = nullptr;
  const char* argument = nullptr;
  if (!PyArg_ParseTuple(args, "Os:text_argument", &text, &argument)) return nullptr;
  return TextArgument(text, argument).Release();
}

void IgnoreSignal(int) {}

// The signal mask of a forking thread before the fork.
thread_local sigset_t mask_before_fork;

// Blocks signals during a fork. A signal that arrived before the child has default handlers would be lost.
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
  for (Worker* worker : Hosted()) worker->connection().MarkForked();
  if (State().worker != nullptr && Hosted().empty()) State().worker->AfterForkInChild();
  // Children of user code end by signals like any process, and multiprocessing relies on it. Handlers of user
  // code stay.
  for (int signal : {SIGINT, SIGTERM}) {
    struct sigaction action {};
    if (sigaction(signal, nullptr, &action) == 0 && action.sa_handler == IgnoreSignal) {
      std::signal(signal, SIG_DFL);
    }
  }
  pthread_sigmask(SIG_SETMASK, &mask_before_fork, nullptr);
  Py_RETURN_NONE;
}

// A signal to the process group also reaches the server, which ends its workers in order. A handler is used
// instead of SIG_IGN, which programs started by user code would inherit.
PyObject* OutliveSignals(PyObject*, PyObject*) {
  struct sigaction action {};
  action.sa_handler = IgnoreSignal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  Py_RETURN_NONE;
}

// Keeps freed memory for the next execution's arrays: fresh pages cost twenty times a copy. Larger blocks,
// and free memory beyond the limit, go back to the system.
PyObject* KeepHeap(PyObject*, PyObject*) {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 64 << 20);
  Py_RETURN_NONE;
}

// Without a separate Landlock domain, workers forked from one process could reach each other.
PyObject* EnterOwnDomain(PyObject*, PyObject*) {
  if (LandlockVersion() >= kLandlockForAllFiles) {
    if (const Status entered = EnterLandlockDomain(); !entered.ok()) {
      PyErr_SetString(PyExc_OSError, entered.message().c_str());
      return nullptr;
    }
  }
  Py_RETURN_NONE;
}

// Otherwise other processes of the user could open the descriptors under /proc, and the memory behind them.
PyObject* HideProcess(PyObject*, PyObject*) {
  prctl(PR_SET_DUMPABLE, 0);
  Py_RETURN_NONE;
}

PyObject* ShowProcess(PyObject*, PyObject*) {
  prctl(PR_SET_DUMPABLE, 1);
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

// Returns the first tensor of that name in the list that `method` of `owner` returns.
PyObject* FindTensor(PyObject* args, const char* format, const char* method) {
  PyObject* owner = nullptr;
  PyObject* name = nullptr;
  if (!PyArg_ParseTuple(args, format, &owner, &name)) return nullptr;
  Ref wanted = IsText(name) ? TextArgument(name, "name") : Ref::Share(name);
  if (!wanted) return nullptr;
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
    const int equal = PyObject_RichCompareBool(its_name.get(), wanted.get(), Py_EQ);
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

template <class Function>
PyCFunction WithKeywords(Function* function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef functions[] = {
    {"connect", Connect, METH_VARARGS,
     "connect(memory, socket, wake, python_version, numpy_version): opens the channel to the server."},
    {"set_futures", SetFutures, METH_VARARGS,
     "set_futures(make, settle): how calls in event loops are awaited; see braid_worker.futures."},
    {"reconnect", Reconnect, METH_VARARGS,
     "reconnect(...): as connect(), in a fork of a template, which becomes an instance."},
    {"host", Host, METH_VARARGS,
     "host(memory_fd, socket_fd, wake_fd, python_version, numpy_version): opens the channel of one "
     "of several workers in this process, selects it for the calling thread, and returns its number. The "
     "process survives the server."},
    {"select", Select, METH_O,
     "select(number): selects the worker of host() for the calling thread, or none of them for None. Returns "
     "what was selected before."},
    {"retire", Retire, METH_O, "retire(number): frees the resources of a worker whose run() has returned."},
    {"run", Run, METH_O, "run(host): answers the server until it says to end."},
    {"set_model", WithKeywords(SetModel), METH_VARARGS | METH_KEYWORDS,
     "set_model(*, model, model_file, instance_name, outputs, decoupled, iterative, coroutine, "
     "saves_sequences): sets the model that executes."},
    {"set_loop", SetLoop, METH_O, "set_loop(loop): the model's event loop, which polls wake_fd()."},
    {"instance_name", InstanceName, METH_NOARGS, "The name of the model's instance."},
    {"wake_fd", WakeFd, METH_NOARGS, "The descriptor that is readable when the server wakes an event loop."},
    {"on_wake", OnWake, METH_NOARGS, "The model's loop calls it when wake_fd() is readable."},
    {"on_timer", OnTimer, METH_NOARGS,
     "The model's loop calls it at the time given to the host's set_timer()."},
    {"on_first_steps", OnFirstSteps, METH_NOARGS, "The tasks of new executions have made their first steps."},
    {"on_turn_done", OnTurnDone, METH_O, "The task of an execution is done."},
    {"cancel_call", CancelCall, METH_O, "cancel_call(id): the call's future was abandoned."},
    {"report_readiness", ReportReadiness, METH_VARARGS,
     "report_readiness(check, ready, reason): reports the result of is_ready()."},
    {"ask", WithKeywords(Ask), METH_VARARGS | METH_KEYWORDS,
     "ask(topic, text, attachments=None, wait=True): sends a question to the server. Returns the text of its "
     "answer, or None if wait is false; raises TritonModelException with the server's text. Any thread."},
    {"log", Log, METH_VARARGS, "log(level, file, line, text): a line in the server's log."},
    {"text_argument", TakeTextArgument, METH_VARARGS,
     "text_argument(text, argument): returns the `text` of user code, a str or UTF-8 bytes, as a str. A "
     "TypeError or ValueError names the `argument`."},
    {"without_paths", TextWithoutPaths, METH_VARARGS,
     "without_paths(text, roots): the text with each path relative to the first root that contains it, or "
     "else only its last part."},
    {"is_connected", IsConnected, METH_NOARGS, "Whether this process has an open channel to a server."},
    {"is_serving", IsServing, METH_NOARGS, "Whether a model is between its initialize and finalize."},
    {"before_fork", BeforeFork, METH_NOARGS, "To be called before user code forks."},
    {"after_fork_in_parent", AfterForkInParent, METH_NOARGS, "To be called after user code has forked."},
    {"after_fork_in_child", AfterForkInChild, METH_NOARGS, "To be called in children of user code."},
    {"outlive_signals", OutliveSignals, METH_NOARGS, "Makes SIGINT and SIGTERM do nothing."},
    {"keep_heap", KeepHeap, METH_NOARGS, "Makes the allocator keep the memory of large arrays."},
    {"enter_own_domain", EnterOwnDomain, METH_NOARGS,
     "Puts this process out of the reach of others, where the kernel can do that."},
    {"show_process", ShowProcess, METH_NOARGS, "Undoes hide_process()."},
    {"hide_process", HideProcess, METH_NOARGS, "Keeps other processes from looking into this one."},
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
  Ref asyncio = Ref::Steal(PyImport_ImportModule("asyncio"));
  if (!state.dtype_name || !state.execute_name || !types || !json || !asyncio) return false;
  state.get_running_loop = PyObject_GetAttrString(asyncio.get(), "get_running_loop");
  state.coroutine_type = PyObject_GetAttrString(types.get(), "CoroutineType");
  state.json_dumps = PyObject_GetAttrString(json.get(), "dumps");
  state.json_dumps_options = Py_BuildValue("{s:(ss),s:O}", "separators", ",", ":", "ensure_ascii", Py_False);
  return state.get_running_loop && state.coroutine_type && state.json_dumps && state.json_dumps_options;
}

bool LoadOwnFunctions(PyObject* module) {
  PythonState& state = State();
  state.on_first_steps = PyObject_GetAttrString(module, "on_first_steps");
  state.on_turn_done = PyObject_GetAttrString(module, "on_turn_done");
  return state.on_first_steps && state.on_turn_done;
}

int Exec(PyObject* module) {
  const bool ok = LoadHelpers() && LoadOwnFunctions(module) && LoadNumpy() && AddModelException(module) &&
                  AddMemoryType(module) && AddTensorType(module) && AddRequestType(module) &&
                  AddResponseTypes(module) && AddSenderType(module) && AddIteratorType(module) &&
                  AddOvmsTensorType(module) && AddNodeFunctions(module);
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
