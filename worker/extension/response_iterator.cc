#include "worker/extension/response_iterator.h"

#include "worker/extension/calls.h"
#include "worker/extension/python_state.h"
#include "worker/extension/worker.h"

namespace braid {
namespace {

struct PyIterator {
  Worker* worker = nullptr;
  std::shared_ptr<Exchange> exchange;  // null after the last response; shared with the inbox
  Ref responses;                       // list of InferenceResponse
  Py_ssize_t next = 0;
  bool exhausted = false;  // StopIteration was raised since the last start

  PyIterator() = default;
  PyIterator(PyIterator&&) = default;
  ~PyIterator() {
    if (!exchange) return;
    // The destructor may run while an exception is set.
    PyObject* error[3];
    PyErr_Fetch(&error[0], &error[1], &error[2]);
    worker->calls().Abandon(*exchange);
    PyErr_Restore(error[0], error[1], error[2]);
  }
};

PyIterator& Self(PyObject* self) { return ValueOf<PyIterator>(self); }

PyObject* Iter(PyObject* self) {
  PyIterator& iterator = Self(self);
  if (iterator.exhausted) {
    iterator.exhausted = false;
    iterator.next = 0;
  }
  Py_INCREF(self);
  return self;
}

PyObject* Next(PyObject* self) {
  PyIterator& iterator = Self(self);
  while (true) {
    if (iterator.next < PyList_Size(iterator.responses.get())) {
      return Ref::Share(PyList_GetItem(iterator.responses.get(), iterator.next++)).Release();
    }
    // Shared, because another thread may reset it while this one waits.
    const std::shared_ptr<Exchange> exchange = iterator.exchange;
    if (!exchange) break;
    Ref response = Ref::Steal(iterator.worker->calls().NextResponse(*exchange));
    if (response) {
      if (PyList_Append(iterator.responses.get(), response.get()) != 0) return nullptr;
    } else if (PyErr_Occurred()) {
      return nullptr;
    } else {
      iterator.exchange = nullptr;
    }
  }
  iterator.exhausted = true;
  PyErr_SetString(PyExc_StopIteration, "Iteration is done for the responses.");
  return nullptr;
}

PyObject* Cancel(PyObject* self, PyObject*) {
  const PyIterator& iterator = Self(self);
  if (iterator.exchange) iterator.worker->calls().Cancel(*iterator.exchange);
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"cancel", Cancel, METH_NOARGS,
     "Ends the call; responses that were received can still be read. Does nothing after the end."},
    {nullptr, nullptr, 0, nullptr},
};
PyType_Slot slots[] = {
    {Py_tp_dealloc, Slot(DeallocSlot<PyIterator>)},
    {Py_tp_iter, Slot(Iter)},
    {Py_tp_iternext, Slot(Next)},
    {Py_tp_methods, methods},
    {Py_tp_doc,
     const_cast<char*>("The responses to a call, as they arrive; a new loop iterates over them again.")},
    {0, nullptr},
};
PyType_Spec spec = {"c_python_backend_utils.ResponseIterator", sizeof(Object<PyIterator>), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

}  // namespace

bool AddIteratorType(PyObject* module) {
  return (State().iterator_type = AddType(module, spec, "ResponseIterator")) != nullptr;
}

PyObject* NewResponseIterator(Worker& worker, std::shared_ptr<Exchange> exchange, Ref first) {
  PyIterator iterator;
  iterator.worker = &worker;
  iterator.exchange = std::move(exchange);
  iterator.responses = Ref::Steal(PyList_New(0));
  if (!iterator.responses || (first && PyList_Append(iterator.responses.get(), first.get()) != 0))
    return nullptr;
  return NewObject(State().iterator_type, std::move(iterator));
}

}  // namespace braid
