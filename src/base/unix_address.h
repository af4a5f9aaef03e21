// The addresses of Unix sockets, as gRPC writes them: "unix:PATH" or "unix:///PATH".
#pragma once

#include <sys/un.h>

#include <string>
#include <string_view>

#include "base/status.h"

namespace braid {

// Whether the address begins with "unix:" or "unix-abstract:". UnixPath() refuses the latter.
bool IsUnixAddress(std::string_view address);

// Returns the absolute path in an address. Errors: INVALID_ARGUMENT: the address has no path, a host before
// it, or one that is too long for the system; or it is not an address of a file.
Result<std::string> UnixPath(std::string_view address);

// Returns "unix:PATH".
inline std::string UnixAddress(const std::string& path) { return "unix:" + path; }

// Returns the path in the system's form. REQUIRES: UnixPath() returned it, or one that is as short.
sockaddr_un UnixName(const std::string& path);

}  // namespace braid
