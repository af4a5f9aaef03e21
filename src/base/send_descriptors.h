// Sends file descriptors in a message over a Unix socket.
#pragma once

#include <cstddef>
#include <span>

#include "base/status.h"

namespace braid {

// The most descriptors of one message.
inline constexpr size_t kMostDescriptors = 8;

// Sends `bytes`, which must not be empty, with copies of `descriptors` as one message. `flags` are those of
// sendmsg(); MSG_NOSIGNAL is always added. Errors: UNAVAILABLE "{what}: {the system's text}". REQUIRES: at
// most kMostDescriptors.
Status SendDescriptors(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors,
                       int flags, std::string_view what);

}  // namespace braid
