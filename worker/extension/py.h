// Wrappers of the CPython API: the limited API of 3.11, owning references, and objects that hold a C++ value.
//
// All functions that take or return Python objects need the GIL.
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
  // Returns a new reference for Python; None if empty.
  PyObject* NewOrNone() const {
    PyObject* object = object_ ? object_ : Py_None;
    Py_INCREF(object);
    return object;
  }

 private:
  explicit Ref(PyObject* object) : object_(object) {}

  PyObject* object_ = nullptr;
};

// A Python object that contains a C++ value.
template <class T>
struct Object {
  PyObject head;
  T value;
};

// REQUIRES: the type of `object` was created for T.
template <class T>
T& ValueOf(PyObject* object) {
  return reinterpret_cast<Object<T>*>(object)->value;
}

// Returns a new object that holds `value`; null with an exception set without memory.
template <class T>
PyObject* NewObject(PyTypeObject* type, T value) {
  auto allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
  PyObject* object = allocate(type, 0);
  if (object != nullptr) new (&ValueOf<T>(object)) T(std::move(value));
  return object;
}

// The slots tp_new and tp_dealloc of such a type. Python subclasses work: tp_init takes the arguments.
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
  // External text may be invalid UTF-8; surrogateescape restores its bytes on the way back.
  return PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape");
}

// Returns the UTF-8 of a str, which the object owns. False with an exception set for lone surrogates.
inline bool TextOf(PyObject* text, std::string_view& out) {
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(text, &size);
  if (data == nullptr) return false;
  out = {data, static_cast<size_t>(size)};
  return true;
}

// Whether the object can be used as a text: a str, or bytes with UTF-8, as in TYPE_STRING tensors.
inline bool IsText(PyObject* object) { return PyUnicode_Check(object) || PyBytes_Check(object); }

// Converts a text argument of user code to str; errors mention `argument`. Null with an exception set:
// ValueError for bytes that are not UTF-8 and for lone surrogates, TypeError for other types.
Ref TextArgument(PyObject* object, const char* argument);

inline bool IsInstance(PyObject* object, PyTypeObject* type) { return PyObject_TypeCheck(object, type) != 0; }

// Returns "<class 'int'>", the form of types in messages.
std::string TypeText(PyObject* object);

}  // namespace braid
