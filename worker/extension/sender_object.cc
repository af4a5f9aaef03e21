#include "worker/extension/sender_object.h"

#include "worker/extension/python_state.h"
#include "worker/extension/worker.h"

namespace braid {
namespace {

constexpr long kFinal = 1;  // TRITONSERVER_RESPONSE_COMPLETE_FINAL

// Returns why a response is not allowed now; null if it is. The order of the checks is part of the behaviour.
const char* Refusal(const OpenRequest* open, bool has_response, long flags) {
  if (flags != 0 && flags != kFinal) return "Unable to send response. Unsupported flag provided.";
  if (flags == 0 && !has_response) {
    return "Inference Response object must be provided when the response flags is set to zero.";
  }
  if (open == nullptr) {
    return "Unable to send response. Response sender has no reference to the decoupled state of the model.";
  }
  if (!open->worker().model().decoupled) {
    if (has_response && open->responses() != 0) {
      return "Unable to send response. Non-decoupled model cannot send more than one response.";
    }
    if (!has_response && open->responses() == 0) {
      return "Unable to send response. Non-decoupled model cannot send complete final before sending a "
             "response.";
    }
  }
  if (open->closed()) return "Unable to send response. Response sender has been closed.";
  return nullptr;
}

PyObject* Send(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"response", "flags", nullptr};
  PyObject* response = Py_None;
  PyObject* flags_object = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO:send", const_cast<char**>(names), &response,
                                   &flags_object)) {
    return nullptr;
  }
  const bool has_response = response != Py_None;
  if ((has_response && !IsInstance(response, State().response_type)) ||
      (flags_object != nullptr && !PyLong_Check(flags_object))) {
    PyErr_SetString(PyExc_TypeError,
                    "send(): incompatible function arguments. The following argument types are supported:\n"
                    "    1. (self: InferenceResponseSender, response: InferenceResponse = None, flags: int = "
                    "0) -> None");
    return nullptr;
  }
  long flags = flags_object != nullptr ? PyLong_AsLong(flags_object) : 0;
  if (PyErr_Occurred()) {
    PyErr_Clear();
    flags = -1;
  }
  const std::shared_ptr<OpenRequest> open = ValueOf<PySender>(self).open;
  if (const char* refusal = Refusal(open.get(), has_response, flags)) return RaiseModelException(refusal);
  Worker& worker = open->worker();
  if (worker.forked()) {
    return RaiseModelException(
        "Unable to send response. This process was forked from the model's process; only that process can "
        "answer.");
  }
  if (!has_response) {
    // If the model is not decoupled, the response has already ended the request.
    open->Close();
    if (open->done()) Py_RETURN_NONE;
    if (!worker.SendEnd(*open)) return nullptr;
    Py_RETURN_NONE;
  }
  OutgoingResponse out;
  if (!worker.Prepare(*open, response, out)) return nullptr;
  out.message.final = flags == kFinal || !worker.model().decoupled;
  open->CountResponse();
  if (flags == kFinal) open->Close();
  if (!worker.SendResponse(*open, out)) return nullptr;
  Py_RETURN_NONE;
}

PyObject* IsCancelled(PyObject* self, PyObject*) {
  const auto& open = ValueOf<PySender>(self).open;
  return PyBool_FromLong(open && open->is_cancelled());
}

PyMethodDef methods[] = {
    {"send", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(Send)), METH_VARARGS | METH_KEYWORDS,
     "send(response=None, flags=0): answers the request; any thread, also after execute has returned."},
    {"is_cancelled", IsCancelled, METH_NOARGS, "Whether the client has cancelled the request."},
    {nullptr, nullptr, 0, nullptr},
};
PyType_Slot slots[] = {
    {Py_tp_dealloc, Slot(DeallocSlot<PySender>)},
    {Py_tp_methods, methods},
    {Py_tp_doc, const_cast<char*>("Sends responses to one request.")},
    {0, nullptr},
};
PyType_Spec spec = {"c_python_backend_utils.InferenceResponseSender", sizeof(Object<PySender>), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

}  // namespace

bool AddSenderType(PyObject* module) {
  return (State().sender_type = AddType(module, spec, "InferenceResponseSender")) != nullptr;
}

PyObject* NewSender(std::shared_ptr<OpenRequest> open) {
  return NewObject(State().sender_type, PySender{std::move(open)});
}

}  // namespace braid
