// Memory: the Python object that lends foreign bytes to numpy through the buffer protocol. It keeps their
// owner alive for as long as anything in Python refers to it.
#pragma once

#include <cstddef>
#include <memory>

#include "worker/extension/py.h"

namespace braid {

bool AddMemoryType(PyObject* module);

// An object of its own `size` bytes, undefined, aligned to 16; for tensors that came inside a message.
PyObject* NewOwnMemory(size_t size, std::byte** data);

// An object over `size` bytes at `data`, which live as long as `keeper` is held.
PyObject* NewForeignMemory(std::byte* data, size_t size, std::shared_ptr<void> keeper);

}  // namespace braid
