// Memory: a Python object that exposes memory to numpy through the buffer protocol, and keeps its owner
// alive.
#pragma once

#include <cstddef>
#include <memory>

#include "worker/extension/py.h"

namespace braid {

bool AddMemoryType(PyObject* module);

// Returns an object that owns `size` uninitialized bytes, aligned to 16; for tensors inside a message.
PyObject* NewOwnMemory(size_t size, std::byte** data);

// Returns an object over `size` bytes at `data`, which live as long as `keeper`.
PyObject* NewForeignMemory(std::byte* data, size_t size, std::shared_ptr<void> keeper);

}  // namespace braid
