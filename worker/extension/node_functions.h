// Functions of the module _braid_worker for braid_worker/nodes.py.
#pragma once

#include "worker/extension/py.h"

namespace braid {

bool AddNodeFunctions(PyObject* module);

}  // namespace braid
