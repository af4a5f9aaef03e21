#include "worker/extension/response_object.h"

#include "worker/extension/python_state.h"
#include "worker/extension/tensor_object.h"

namespace braid {
namespace {

int RaiseBadResponse() {
  PyErr_SetString(
      PyExc_TypeError,
      "InferenceResponse(): incompatible constructor arguments. The following argument types are supported:\n"
      "    1. InferenceResponse(output_tensors: List[Tensor] = [], error: TritonError = None, parameters: "
      "object = None)");
  return -1;
}

int InitResponse(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"output_tensors", "error", "parameters", nullptr};
  PyObject* tensors = nullptr;
  PyObject* error = nullptr;
  PyObject* parameters = nullptr;
  if (kwargs == nullptr && PyTuple_Size(args) == 1) {
    tensors = PyTuple_GetItem(args, 0);
  } else if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OOO:InferenceResponse", const_cast<char**>(names),
                                          &tensors, &error, &parameters)) {
    return -1;
  }
  PyResponse response;
  if (tensors != nullptr) {
    if (!PySequence_Check(tensors) || IsText(tensors)) {
      return RaiseBadResponse();
    }
    response.tensors = Ref::Steal(PySequence_List(tensors));
    if (!response.tensors) return -1;
    const Py_ssize_t count = PyList_Size(response.tensors.get());
    for (Py_ssize_t i = 0; i < count; ++i) {
      PyObject* item = PyList_GetItem(response.tensors.get(), i);
      if (IsInstance(item, State().tensor_type)) continue;
      if (item != Py_None) return RaiseBadResponse();
      RaiseModelException("Output tensor for inference response should not be empty.");
      return -1;
    }
  }
  if (error != nullptr && error != Py_None) {
    if (!IsInstance(error, State().error_type)) return RaiseBadResponse();
    response.error = Ref::Share(error);
  }
  if (parameters != nullptr && !EncodeParameters(parameters, response.parameters_json)) return -1;
  std::swap(ValueOf<PyResponse>(self), response);
  return 0;
}

PyObject* OutputTensors(PyObject* self, PyObject*) {
  const Ref& tensors = ValueOf<PyResponse>(self).tensors;
  return tensors ? PyList_GetSlice(tensors.get(), 0, PY_SSIZE_T_MAX) : PyList_New(0);
}

PyObject* HasError(PyObject* self, PyObject*) {
  return PyBool_FromLong(static_cast<bool>(ValueOf<PyResponse>(self).error));
}

PyObject* GetError(PyObject* self, PyObject*) { return ValueOf<PyResponse>(self).error.NewOrNone(); }

PyObject* Parameters(PyObject* self, PyObject*) {
  const Ref& json = ValueOf<PyResponse>(self).parameters_json;
  return json ? json.NewOrNone() : NewText("{}");
}

PyMethodDef response_methods[] = {
    {"output_tensors", OutputTensors, METH_NOARGS, "The output tensors, as a list."},
    {"has_error", HasError, METH_NOARGS, "Whether this is an error."},
    {"error", GetError, METH_NOARGS, "The TritonError, or None."},
    {"parameters", Parameters, METH_NOARGS, "The parameters, as the JSON text of an object."},
    {nullptr, nullptr, 0, nullptr},
};
PyType_Slot response_slots[] = {
    {Py_tp_new, Slot(NewSlot<PyResponse>)},
    {Py_tp_init, Slot(InitResponse)},
    {Py_tp_dealloc, Slot(DeallocSlot<PyResponse>)},
    {Py_tp_methods, response_methods},
    {Py_tp_doc, const_cast<char*>("InferenceResponse(output_tensors=[], error=None, parameters=None)")},
    {0, nullptr},
};
PyType_Spec response_spec = {"c_python_backend_utils.InferenceResponse", sizeof(Object<PyResponse>), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, response_slots};

int InitError(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"message", "code", nullptr};
  PyObject* message = nullptr;
  PyObject* code = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:TritonError", const_cast<char**>(names), &message,
                                   &code)) {
    return -1;
  }
  if (!IsText(message) ||
      (code != nullptr && !IsInstance(code, reinterpret_cast<PyTypeObject*>(State().error_code_type)))) {
    PyErr_SetString(PyExc_TypeError,
                    "TritonError(): incompatible constructor arguments. The following argument types are "
                    "supported:\n    1. TritonError(message: str, code: TritonError.__ErrorCode = "
                    "TritonError.INTERNAL)");
    return -1;
  }
  Ref text = TextArgument(message, "message");
  if (!text) return -1;
  PyError& error = ValueOf<PyError>(self);
  error.message = std::move(text);
  error.code = Ref::Share(code != nullptr ? code : State().error_codes[1]);
  return 0;
}

PyObject* Message(PyObject* self, PyObject*) { return ValueOf<PyError>(self).message.NewOrNone(); }
PyObject* Code(PyObject* self, PyObject*) { return ValueOf<PyError>(self).code.NewOrNone(); }

PyMethodDef error_methods[] = {
    {"message", Message, METH_NOARGS, "The text of the error."},
    {"code", Code, METH_NOARGS, "The kind of error: one of TritonError.UNKNOWN, .INTERNAL, ..."},
    {nullptr, nullptr, 0, nullptr},
};
PyType_Slot error_slots[] = {
    {Py_tp_new, Slot(NewSlot<PyError>)},
    {Py_tp_init, Slot(InitError)},
    {Py_tp_dealloc, Slot(DeallocSlot<PyError>)},
    {Py_tp_methods, error_methods},
    {Py_tp_doc, const_cast<char*>("TritonError(message, code=TritonError.INTERNAL)")},
    {0, nullptr},
};
PyType_Spec error_spec = {"c_python_backend_utils.TritonError", sizeof(Object<PyError>), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, error_slots};

bool AddErrorCodes() {
  static constexpr const char* kNames[] = {"UNKNOWN",     "INTERNAL",    "NOT_FOUND",      "INVALID_ARG",
                                           "UNAVAILABLE", "UNSUPPORTED", "ALREADY_EXISTS", "CANCELLED"};
  PythonState& state = State();
  Ref enum_module = Ref::Steal(PyImport_ImportModule("enum"));
  Ref members = Ref::Steal(PyList_New(0));
  if (!enum_module || !members) return false;
  for (int i = 0; i < 8; ++i) {
    Ref member = Ref::Steal(Py_BuildValue("(si)", kNames[i], i));
    if (!member || PyList_Append(members.get(), member.get()) != 0) return false;
  }
  state.error_code_type =
      PyObject_CallMethod(enum_module.get(), "IntEnum", "sO", "__ErrorCode", members.get());
  if (state.error_code_type == nullptr) return false;
  auto* type = reinterpret_cast<PyObject*>(state.error_type);
  for (size_t i = 0; i < 8; ++i) {
    state.error_codes[i] = PyObject_GetAttrString(state.error_code_type, kNames[i]);
    if (state.error_codes[i] == nullptr ||
        PyObject_SetAttrString(type, kNames[i], state.error_codes[i]) != 0) {
      return false;
    }
  }
  return PyObject_SetAttrString(type, "__ErrorCode", state.error_code_type) == 0;
}

bool IsParameterValue(PyObject* value) { return PyBool_Check(value) || PyLong_Check(value) || IsText(value); }

}  // namespace

bool AddResponseTypes(PyObject* module) {
  PythonState& state = State();
  return (state.response_type = AddType(module, response_spec, "InferenceResponse")) != nullptr &&
         (state.error_type = AddType(module, error_spec, "TritonError")) != nullptr && AddErrorCodes();
}

StatusCode StatusCodeOf(const PyError& error) {
  const long code = error.code ? PyLong_AsLong(error.code.get()) : 1;
  return static_cast<StatusCode>(code + 1);
}

PyObject* ErrorCodeOf(StatusCode code) { return State().error_codes[static_cast<size_t>(code) - 1]; }

bool EncodeParameters(PyObject* parameters, Ref& json) {
  if (parameters == Py_None) return true;
  if (!PyDict_Check(parameters)) {
    RaiseModelException("Expect dict, got " + TypeText(parameters));
    return false;
  }
  Ref plain = Ref::Steal(PyDict_New());
  if (!plain) return false;
  PyObject* key = nullptr;
  PyObject* value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(parameters, &at, &key, &value) != 0;) {
    if (!IsText(key)) {
      RaiseModelException("Expect parameters keys to have type str, found type " + TypeText(key));
      return false;
    }
    if (!IsParameterValue(value)) {
      RaiseModelException("Expect parameters values to have type bool/int/str, found type " +
                          TypeText(value));
      return false;
    }
    Ref name = TextArgument(key, "parameters");
    Ref given = IsText(value) ? TextArgument(value, "parameters") : Ref::Share(value);
    if (!name || !given || PyDict_SetItem(plain.get(), name.get(), given.get()) != 0) return false;
  }
  Ref args = Ref::Steal(PyTuple_Pack(1, plain.get()));
  if (!args) return false;
  json = Ref::Steal(PyObject_Call(State().json_dumps, args.get(), State().json_dumps_options));
  return static_cast<bool>(json);
}

}  // namespace braid
