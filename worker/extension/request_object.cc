#include "worker/extension/request_object.h"

#include <algorithm>
#include <utility>

#include "worker/extension/python_state.h"
#include "worker/extension/response_object.h"
#include "worker/extension/sender_object.h"
#include "worker/extension/tensor_object.h"
#include "worker/extension/worker.h"

namespace braid {
namespace {

constexpr uint64_t kReleaseAll = 1;
constexpr uint64_t kReleaseReschedule = 2;

PyRequest& Self(PyObject* self) { return ValueOf<PyRequest>(self); }

int RaiseBadArguments() {
  PyErr_SetString(
      PyExc_TypeError,
      "InferenceRequest(): incompatible constructor arguments. The following argument types are supported:\n"
      "    1. InferenceRequest(request_id: str = '', correlation_id: object = 0, inputs: List[Tensor], "
      "requested_output_names: List[str], model_name: str, model_version: int = -1, flags: int = 0, timeout: "
      "int = 0, preferred_memory: PreferredMemory = None, trace: "
      "InferenceTrace = None, parameters: object = None)");
  return -1;
}

bool IsNone(PyObject* object) { return object == Py_None; }

bool TakeText(PyObject* object, const char* argument, std::string& out) {
  Ref text = TextArgument(object, argument);
  std::string_view view;
  if (!text || !TextOf(text.get(), view)) return false;
  out = view;
  return true;
}

bool RaiseCast(const char* what) {
  PyErr_Clear();
  PyErr_Format(PyExc_RuntimeError, "Unable to cast Python instance to C++ type: %s is out of range", what);
  return false;
}

bool TakeUnsigned(PyObject* object, const char* what, uint64_t limit, uint64_t& out) {
  out = PyLong_AsUnsignedLongLong(object);
  if (PyErr_Occurred() || out > limit) return RaiseCast(what);
  return true;
}

bool TakeCorrelationId(PyObject* object, std::variant<uint64_t, std::string>& out) {
  if (IsText(object)) return TakeText(object, "correlation_id", out.emplace<std::string>());
  if (PyLong_Check(object))
    return TakeUnsigned(object, "correlation_id", UINT64_MAX, out.emplace<uint64_t>());
  RaiseModelException("Correlation ID must be integer or string");
  return false;
}

bool TakeInputs(PyObject* object, PyRequest& request) {
  request.inputs = Ref::Steal(PySequence_List(object));
  if (!request.inputs) return false;
  for (Py_ssize_t i = 0; i < PyList_Size(request.inputs.get()); ++i) {
    PyObject* item = PyList_GetItem(request.inputs.get(), i);
    if (IsNone(item)) {
      RaiseModelException("Input tensor for request with id '" + request.request_id + "' and model name '" +
                          request.model_name + "' should not be empty.");
      return false;
    }
    if (!IsInstance(item, State().tensor_type)) return RaiseBadArguments() == 0;
  }
  return true;
}

bool TakeOutputNames(PyObject* object, PyRequest& request) {
  Ref names = Ref::Steal(PySequence_List(object));
  if (!names) return false;
  for (Py_ssize_t i = 0; i < PyList_Size(names.get()); ++i) {
    PyObject* item = PyList_GetItem(names.get(), i);
    if (!IsText(item)) return RaiseBadArguments() == 0;
    std::string name;
    if (!TakeText(item, "requested_output_names", name)) return false;
    if (name.empty()) {
      RaiseModelException("Requested output name for request with id '" + request.request_id +
                          "' and model name '" + request.model_name + "' should not be empty.");
      return false;
    }
    if (std::ranges::find(request.requested_outputs, name) == request.requested_outputs.end()) {
      request.requested_outputs.push_back(std::move(name));
    }
  }
  return true;
}

// Reads a PreferredMemory.
bool TakePreference(PyObject* object, PyRequest& request) {
  Ref type = Ref::Steal(PyObject_GetAttrString(object, "_type"));
  Ref id = Ref::Steal(PyObject_GetAttrString(object, "_device_id"));
  const long number = type ? PyLong_AsLong(type.get()) : -1;
  const long device = id ? PyLong_AsLong(id.get()) : -1;
  if (PyErr_Occurred()) {
    PyErr_Clear();
    return RaiseBadArguments() == 0;
  }
  request.device_outputs = number == 0;
  if (number == 0) request.preferred_gpu = std::in_range<int>(device) ? static_cast<int>(device) : -1;
  return true;
}

bool IsListLike(PyObject* object) { return PySequence_Check(object) && !IsText(object); }

int Init(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"request_id",       "correlation_id", "inputs",     "requested_output_names",
                                "model_name",       "model_version",  "flags",      "timeout",
                                "preferred_memory", "trace",          "parameters", nullptr};
  PyObject* request_id = nullptr;
  PyObject* correlation_id = nullptr;
  PyObject* inputs = nullptr;
  PyObject* outputs = nullptr;
  PyObject* model_name = nullptr;
  PyObject* model_version = nullptr;
  PyObject* flags = nullptr;
  PyObject* timeout = nullptr;
  PyObject* preferred_memory = nullptr;
  PyObject* trace = nullptr;
  PyObject* parameters = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OOOOOOOOOOO:InferenceRequest", const_cast<char**>(names),
                                   &request_id, &correlation_id, &inputs, &outputs, &model_name,
                                   &model_version, &flags, &timeout, &preferred_memory, &trace,
                                   &parameters)) {
    return -1;
  }
  if ((request_id && !IsText(request_id)) || (correlation_id && IsNone(correlation_id)) || !inputs ||
      !IsListLike(inputs) || !outputs || !IsListLike(outputs) || !model_name || !IsText(model_name) ||
      (model_version && !PyLong_Check(model_version)) || (flags && !PyLong_Check(flags)) ||
      (timeout && !PyLong_Check(timeout))) {
    return RaiseBadArguments();
  }
  PyRequest request;
  uint64_t number = 0;
  if (request_id && !TakeText(request_id, "request_id", request.request_id)) return -1;
  if (!TakeText(model_name, "model_name", request.model_name)) return -1;
  if (correlation_id && !TakeCorrelationId(correlation_id, request.correlation_id)) return -1;
  if (!TakeInputs(inputs, request) || !TakeOutputNames(outputs, request)) return -1;
  if (model_version) {
    request.model_version = PyLong_AsLongLong(model_version);
    if (PyErr_Occurred()) {
      RaiseCast("model_version");
      return -1;
    }
  }
  if (flags) {
    if (!TakeUnsigned(flags, "flags", UINT32_MAX, number)) return -1;
    request.flags = static_cast<uint32_t>(number);
  }
  if (timeout && !TakeUnsigned(timeout, "timeout", UINT64_MAX, request.timeout_us)) return -1;
  Ref json;
  if (parameters && !EncodeParameters(parameters, json)) return -1;
  if (json && !TakeText(json.get(), "parameters", request.parameters_json)) return -1;
  if (preferred_memory && !IsNone(preferred_memory) && !TakePreference(preferred_memory, request)) return -1;
  if (trace && !IsNone(trace)) request.trace = Ref::Share(trace);
  std::swap(Self(self), request);
  return 0;
}

PyObject* Inputs(PyObject* self, PyObject*) {
  const Ref& inputs = Self(self).inputs;
  // A new list for the caller.
  return inputs ? PyList_GetSlice(inputs.get(), 0, PY_SSIZE_T_MAX) : PyList_New(0);
}

PyObject* RequestId(PyObject* self, PyObject*) { return NewText(Self(self).request_id); }

PyObject* CorrelationId(PyObject* self, PyObject*) {
  const auto& id = Self(self).correlation_id;
  if (const auto* number = std::get_if<uint64_t>(&id)) return PyLong_FromUnsignedLongLong(*number);
  return NewText(std::get<std::string>(id));
}

PyObject* NewSet(const std::vector<std::string>& names) {
  Ref set = Ref::Steal(PySet_New(nullptr));
  if (!set) return nullptr;
  for (const std::string& name : names) {
    Ref text = Ref::Steal(NewText(name));
    if (!text || PySet_Add(set.get(), text.get()) != 0) return nullptr;
  }
  return set.Release();
}

PyObject* RequestedOutputNames(PyObject* self, PyObject*) {
  const PyRequest& request = Self(self);
  return request.open ? request.open->RequestedOutputs() : NewSet(request.requested_outputs);
}

PyObject* Flags(PyObject* self, PyObject*) { return PyLong_FromUnsignedLong(Self(self).flags); }

PyObject* SetFlags(PyObject* self, PyObject* flags) {
  if (!PyLong_Check(flags)) {
    PyErr_SetString(PyExc_TypeError, "set_flags(): incompatible function arguments, expected an int");
    return nullptr;
  }
  uint64_t number = 0;
  if (!TakeUnsigned(flags, "flags", UINT32_MAX, number)) return nullptr;
  Self(self).flags = static_cast<uint32_t>(number);
  Py_RETURN_NONE;
}

PyObject* Timeout(PyObject* self, PyObject*) { return PyLong_FromUnsignedLongLong(Self(self).timeout_us); }

PyObject* Parameters(PyObject* self, PyObject*) {
  const std::string& json = Self(self).parameters_json;
  return NewText(json.empty() ? std::string_view("{}") : std::string_view(json));
}

PyObject* Trace(PyObject* self, PyObject*) {
  Ref& trace = Self(self).trace;
  if (!trace) {
    Ref module = Ref::Steal(PyImport_ImportModule("c_python_backend_utils"));
    if (!module) return nullptr;
    const PyRequest& request = Self(self);
    Ref context =
        request.trace_context.empty() ? Ref::Share(Py_None) : Ref::Steal(NewText(request.trace_context));
    if (!context) return nullptr;
    const uint64_t id = request.open ? request.open->id() : 0;
    trace = Ref::Steal(PyObject_CallMethod(module.get(), "InferenceTrace", "OK", context.get(),
                                           static_cast<unsigned long long>(id)));
    if (!trace) return nullptr;
  }
  return trace.NewOrNone();
}

PyObject* IsCancelled(PyObject* self, PyObject*) {
  const auto& open = Self(self).open;
  return PyBool_FromLong(open && open->is_cancelled());
}

PyObject* GetResponseSender(PyObject* self, PyObject*) {
  PyRequest& request = Self(self);
  if (!request.sender) {
    request.sender = Ref::Steal(NewSender(request.open));
    if (!request.sender) return nullptr;
  }
  return request.sender.NewOrNone();
}

PyObject* SetReleaseFlags(PyObject* self, PyObject* flags) {
  if (!PyLong_Check(flags)) {
    PyErr_SetString(PyExc_TypeError, "set_release_flags(): incompatible function arguments, expected an int");
    return nullptr;
  }
  if (!Self(self).open) {
    return RaiseModelException("Release flags can only be set on requests that came with `execute`.");
  }
  uint64_t number = 0;
  if (!TakeUnsigned(flags, "flags", UINT32_MAX, number)) return nullptr;
  if (number != kReleaseAll && number != kReleaseReschedule) {
    return RaiseModelException("Unsupported release flags " + std::to_string(number) + ".");
  }
  OpenRequest& open = *Self(self).open;
  if (open.released()) {
    return RaiseModelException("Release flags can only be set before `execute` has returned.");
  }
  open.set_reschedules(number == kReleaseReschedule);
  Py_RETURN_NONE;
}

bool ParseCall(PyObject* args, PyObject* kwargs, const char* format, int& decoupled) {
  static const char* names[] = {"decoupled", nullptr};
  return PyArg_ParseTupleAndKeywords(args, kwargs, format, const_cast<char**>(names), &decoupled) != 0;
}

// Returns null with an exception set if calls are not allowed now. The server's own services are called at any
// time; their names are not those of models.
Calls* TheCalls(const std::string& model) {
  Worker* worker = CurrentWorker();
  if (worker != nullptr && (worker->serving() || model.starts_with('\x01'))) return &worker->calls();
  RaiseModelException("BLS is only supported during the 'execute' function.");
  return nullptr;
}

PyObject* Exec(PyObject* self, PyObject* args, PyObject* kwargs) {
  int decoupled = 0;
  if (!ParseCall(args, kwargs, "|p:exec", decoupled)) return nullptr;
  Calls* calls = TheCalls(Self(self).model_name);
  return calls != nullptr ? calls->Exec(Self(self), decoupled != 0) : nullptr;
}

PyObject* AsyncExec(PyObject* self, PyObject* args, PyObject* kwargs) {
  int decoupled = 0;
  if (!ParseCall(args, kwargs, "|p:async_exec", decoupled)) return nullptr;
  Ref loop = Ref::Steal(PyObject_CallObject(State().get_running_loop, nullptr));
  if (!loop) return nullptr;
  Calls* calls = TheCalls(Self(self).model_name);
  return calls != nullptr ? calls->AsyncExec(Self(self), decoupled != 0, loop.get()) : nullptr;
}

template <class Function>
PyCFunction WithKeywords(Function* function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef methods[] = {
    {"inputs", Inputs, METH_NOARGS, "The input tensors, in the order of the request."},
    {"request_id", RequestId, METH_NOARGS, "The client's name for the request."},
    {"correlation_id", CorrelationId, METH_NOARGS, "The sequence that the request belongs to; int or str."},
    {"requested_output_names", RequestedOutputNames, METH_NOARGS, "The outputs that are wanted, as a set."},
    {"flags", Flags, METH_NOARGS, "TRITONSERVER_REQUEST_FLAG_SEQUENCE_START and _END."},
    {"set_flags", SetFlags, METH_O, "Sets the flags of a request."},
    {"timeout", Timeout, METH_NOARGS, "The time-out in microseconds; 0 for none."},
    {"parameters", Parameters, METH_NOARGS, "The parameters, as the JSON text of an object."},
    {"trace", Trace, METH_NOARGS, "The trace that the request belongs to."},
    {"is_cancelled", IsCancelled, METH_NOARGS, "Whether the client has cancelled the request."},
    {"get_response_sender", GetResponseSender, METH_NOARGS, "The sender of responses to this request."},
    {"set_release_flags", SetReleaseFlags, METH_O,
     "Sets whether the request ends, or is scheduled again, after execute."},
    {"exec", WithKeywords(Exec), METH_VARARGS | METH_KEYWORDS, "Runs the request on another model."},
    {"async_exec", WithKeywords(AsyncExec), METH_VARARGS | METH_KEYWORDS,
     "Runs the request on another model, awaitable."},
    {nullptr, nullptr, 0, nullptr},
};
PyType_Slot slots[] = {
    {Py_tp_new, Slot(NewSlot<PyRequest>)},
    {Py_tp_init, Slot(Init)},
    {Py_tp_dealloc, Slot(DeallocSlot<PyRequest>)},
    {Py_tp_methods, methods},
    {Py_tp_doc, const_cast<char*>("A request: one for this model, or one for another that this one makes.")},
    {0, nullptr},
};
PyType_Spec spec = {"c_python_backend_utils.InferenceRequest", sizeof(Object<PyRequest>), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

}  // namespace

OpenRequest::~OpenRequest() {
  if (!done_) worker_.FailAbandoned(*this);
}

bool OpenRequest::is_cancelled() {
  if (done_ || slot_ >= ChannelHeader::kCancelSlots) return was_cancelled_;
  return worker_.header().cancelled[slot_].load(std::memory_order_acquire) != 0;
}

void OpenRequest::Finish() {
  if (done_) return;
  was_cancelled_ = is_cancelled();
  done_ = true;
}

bool OpenRequest::Wants(PyObject* name) const {
  if (requested_.empty()) {
    const int found = PySet_Contains(worker_.model().outputs.get(), name);
    if (found < 0) PyErr_Clear();
    return found == 1;
  }
  std::string_view text;
  if (!TextOf(name, text)) {
    PyErr_Clear();
    return false;
  }
  return std::ranges::find(requested_, text) != requested_.end();
}

PyObject* OpenRequest::RequestedOutputs() const {
  return requested_.empty() ? PySet_New(worker_.model().outputs.get()) : NewSet(requested_);
}

bool AddRequestType(PyObject* module) {
  return (State().request_type = AddType(module, spec, "InferenceRequest")) != nullptr;
}

}  // namespace braid
