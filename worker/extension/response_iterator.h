// pb_utils.ResponseIterator: the responses to a call of another model, in the order of their arrival. It
// keeps them, so that they can be gone over again.
#pragma once

#include <memory>

#include "worker/extension/inbox.h"
#include "worker/extension/py.h"

namespace braid {

bool AddIteratorType(PyObject* module);

// The responses that come for `exchange`, if given, behind `first`, if given. Null with an exception set.
PyObject* NewResponseIterator(std::shared_ptr<Exchange> exchange, Ref first);

}  // namespace braid
