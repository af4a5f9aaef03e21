// Copies from and to mapped memory whose file another process may shorten meanwhile.
#pragma once

#include <cstddef>

namespace braid {

// Copy like memcpy, where `shared` is mapped from a file that another process owns. Its pages can disappear,
// because the file was shortened or the system has no page left. These functions then stop and return false,
// where memcpy would end the process with SIGBUS. The bytes copied so far stay.
//
// The first call installs a SIGBUS handler for the process, which passes on every fault outside a copy. Any
// thread.
bool CopyFromShared(void* to, const void* shared, size_t size);
bool CopyToShared(void* shared, const void* from, size_t size);

}  // namespace braid
