// Copying from and to mapped memory whose file somebody else may shorten meanwhile.
#pragma once

#include <cstddef>

namespace braid {

// Copies like memcpy. `shared` is mapped from a file of somebody else's: when its pages are gone, because the
// file was made shorter or the system has no page to give, the copy stops and false is returned, where memcpy
// would end the process with SIGBUS. What was copied until then is there.
//
// The first call installs a handler of SIGBUS for the process, which passes on every fault that is not one of
// a copy. Any thread.
bool CopyFromShared(void* to, const void* shared, size_t size);
bool CopyToShared(void* shared, const void* from, size_t size);

}  // namespace braid
