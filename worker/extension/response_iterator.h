// pb_utils.ResponseIterator: the responses to a call of another model, in order of arrival. It keeps them, so
// that user code can iterate again.
#pragma once

#include <memory>

#include "worker/extension/inbox.h"
#include "worker/extension/py.h"

namespace braid {

class Worker;

bool AddIteratorType(PyObject* module);

// Returns an iterator over `first`, if given, and then the responses to `exchange`, if given. Null with an
// exception set.
PyObject* NewResponseIterator(Worker& worker, std::shared_ptr<Exchange> exchange, Ref first);

}  // namespace braid
