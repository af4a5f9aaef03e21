// The CPython API as the extension uses it: the limited API of 3.11, references with owners, and objects that
// hold a C++ value.
//
// Everything that takes or makes a Python object is called with the GIL held.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#ifndef Py_LIMITED_API
#error "The extension is built against the stable ABI alone"
#endif

#include <new>
#include <string>
#include <string_view>
#include <utility>

namespace braid {

// Owns one reference.
class Ref {
 public:
  Ref() = default;
  static Ref Steal(PyObject* object) { return Ref(object); }
  static Ref Share(PyObject* object) {
    Py_XINCREF(object);
    return Ref(object);
  }
  Ref(const Ref& other) : object_(other.object_) { Py_XINCREF(object_); }
  Ref(Ref&& other) noexcept : object_(other.Release()) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() { Py_XDECREF(object_); }

  PyObject* get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }
  PyObject* Release() { return std::exchange(object_, nullptr); }
  // A new reference to it, for a return to Python; None when there is nothing.
  PyObject* NewOrNone() const {
    PyObject* object = object_ ? object_ : Py_None;
    Py_INCREF(object);
    return object;
  }

 private:
  explicit Ref(PyObject* object) : object_(object) {}

  PyObject* object_ = nullptr;
};

// The Python object around a C++ value.
template <class T>
struct Object {
  PyObject head;
  T value;
};

// REQUIRES: `object` is of the type that was made for T.
template <class T>
T& ValueOf(PyObject* object) {
  return reinterpret_cast<Object<T>*>(object)->value;
}

// A new object that holds `value`; null with an exception set when there is no memory.
template <class T>
PyObject* NewObject(PyTypeObject* type, T value) {
  auto allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
  PyObject* object = allocate(type, 0);
  if (object != nullptr) new (&ValueOf<T>(object)) T(std::move(value));
  return object;
}

// The slots tp_new and tp_dealloc of such a type. Subclasses from Python work: tp_init takes the arguments.
template <class T>
PyObject* NewSlot(PyTypeObject* type, PyObject*, PyObject*) {
  return NewObject<T>(type, T());
}
template <class T>
void DeallocSlot(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  ValueOf<T>(object).~T();
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(object);
  Py_DECREF(type);
}

template <class Function>
void* Slot(Function* function) {
  return reinterpret_cast<void*>(function);
}

inline PyObject* NewText(std::string_view text) {
  // What came from outside may not be UTF-8; it goes back as it came.
  return PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape");
}

// The UTF-8 of a str, which the object keeps; false with an exception set when it has none (lone surrogates).
inline bool TextOf(PyObject* text, std::string_view& out) {
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(text, &size);
  if (data == nullptr) return false;
  out = {data, static_cast<size_t>(size)};
  return true;
}

// Whether it can stand where a text is wanted: a str, or bytes with the UTF-8 of one, which is what the
// elements of a TYPE_STRING tensor are.
inline bool IsText(PyObject* object) { return PyUnicode_Check(object) || PyBytes_Check(object); }

// The str of the text that user code gives as `argument`, which errors name. Null with an exception set:
// ValueError for what has no UTF-8 (other bytes, lone surrogates), TypeError for what is no text.
Ref TextArgument(PyObject* object, const char* argument);

inline bool IsInstance(PyObject* object, PyTypeObject* type) { return PyObject_TypeCheck(object, type) != 0; }

// "<class 'int'>", as messages name types.
std::string TypeText(PyObject* object);

}  // namespace braid
