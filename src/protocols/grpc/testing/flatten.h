// Flatten(): an encoded message as a client receives it, in one piece.
#pragma once

#include <sys/uio.h>

#include <array>
#include <string>
#include <utility>

#include "protocols/grpc/message.h"

namespace braid {

inline std::string Flatten(EncodedMessage message) {
  EncodedMessageReader reader(std::move(message));
  OutgoingBytes outgoing;
  reader.Take(reader.left(), outgoing);
  std::string bytes;
  while (!outgoing.empty()) {
    std::array<iovec, 16> pieces;
    const size_t count = outgoing.Gather(pieces);
    size_t size = 0;
    for (size_t i = 0; i < count; ++i) {
      bytes.append(static_cast<const char*>(pieces[i].iov_base), pieces[i].iov_len);
      size += pieces[i].iov_len;
    }
    outgoing.Consume(size);
  }
  return bytes;
}

}  // namespace braid
