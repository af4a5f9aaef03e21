#include "worker/extension/python_state.h"

namespace braid {

PythonState& State() {
  static PythonState state;
  return state;
}

std::string TypeText(PyObject* object) {
  Ref text = Ref::Steal(PyObject_Str(reinterpret_cast<PyObject*>(Py_TYPE(object))));
  std::string_view view;
  if (!text || !TextOf(text.get(), view)) {
    PyErr_Clear();
    return "<class '?'>";
  }
  return std::string(view);
}

Ref TextArgument(PyObject* object, const char* argument) {
  if (!IsText(object)) {
    PyErr_Format(PyExc_TypeError, "%s must be str, not %s", argument, TypeText(object).c_str());
    return {};
  }
  Ref text = PyBytes_Check(object)
                 ? Ref::Steal(PyUnicode_DecodeUTF8(PyBytes_AsString(object), PyBytes_Size(object), nullptr))
                 : Ref::Share(object);
  std::string_view view;
  if (text && TextOf(text.get(), view)) return text;
  if (PyErr_ExceptionMatches(PyExc_UnicodeError)) {
    PyErr_Clear();
    PyErr_Format(PyExc_ValueError, "%s must be UTF-8, which %R is not", argument, object);
  }
  return {};
}

PyObject* RaiseModelException(std::string_view text) {
  Ref message = Ref::Steal(NewText(text));
  if (message) PyErr_SetObject(State().model_exception, message.get());
  return nullptr;
}

PyTypeObject* AddType(PyObject* module, PyType_Spec& spec, const char* name) {
  PyObject* type = PyType_FromModuleAndSpec(module, &spec, nullptr);
  if (type == nullptr || PyModule_AddObjectRef(module, name, type) != 0) return nullptr;
  return reinterpret_cast<PyTypeObject*>(type);
}

bool LoadNumpy() {
  PythonState& state = State();
  Ref numpy = Ref::Steal(PyImport_ImportModule("numpy"));
  if (!numpy) return false;
  auto get = [&numpy](const char* name) { return PyObject_GetAttrString(numpy.get(), name); };
  state.ndarray = reinterpret_cast<PyTypeObject*>(get("ndarray"));
  state.frombuffer = get("frombuffer");
  state.empty = get("empty");
  state.ascontiguousarray = get("ascontiguousarray");
  Ref dtype = Ref::Steal(get("dtype"));
  if (!state.ndarray || !state.frombuffer || !state.empty || !state.ascontiguousarray || !dtype) return false;
  static constexpr std::array<const char*, kDataTypeCount> kNames = {
      nullptr, "bool",  "uint8",   "uint16",  "uint32",  "uint64", "int8", "int16",
      "int32", "int64", "float16", "float32", "float64", "object", nullptr};
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == nullptr) continue;
    state.dtypes[i] = PyObject_CallFunction(dtype.get(), "s", kNames[i]);
    if (!state.dtypes[i]) return false;
  }
  return true;
}

}  // namespace braid
