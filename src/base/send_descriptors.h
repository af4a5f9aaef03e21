// Descriptors in a message over a Unix socket.
#pragma once

#include <cstddef>
#include <span>

#include "base/status.h"

namespace braid {

// As many go with one message.
inline constexpr size_t kMostDescriptors = 8;

// Sends `bytes`, of which there is at least one, with copies of `descriptors` as one message; `flags` as for
// sendmsg(), MSG_NOSIGNAL is among them always. Errors: UNAVAILABLE "{what}: {the system's text}".
// REQUIRES: no more than kMostDescriptors.
Status SendDescriptors(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors,
                       int flags, std::string_view what);

}  // namespace braid
