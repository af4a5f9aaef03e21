// A response on its way into a socket.
#pragma once

#include <string>

#include "base/memory_use.h"
#include "protocols/http/message.h"
#include "protocols/net/client_socket.h"

namespace braid {

// Appends status line and headers of a response, up to and with the empty line. `length_field` says how long
// the body is, as a whole header line without its end; empty: until the connection ends.
void AppendResponseHead(std::string& out, const HttpResponse& response, std::string_view length_field,
                        std::string_view connection);

// Reused for all responses of a connection. One thread at a time.
class Outgoing {
 public:
  // Takes a response. `connection`: its field of that name, if it is not empty; `omit_body` leaves the body out
  // (HEAD).
  void Set(HttpResponse response, std::string_view connection, bool omit_body);

  enum class Progress : unsigned char { kDone, kBlocked, kFailed };
  // Writes as much as the socket takes at once, gathered from where it lies. Never raises SIGPIPE.
  Progress Send(ClientSocket& socket);

  // Lets go of the response's memory.
  void Clear();

 private:
  std::string head_;
  std::string body_;
  std::vector<Buffer> tail_;
  MemoryCharge charge_;  // while it waits for the socket
  size_t sent_ = 0;      // of part_
  size_t part_ = 0;      // 0: head_, 1: body_, from 2: tail_
};

}  // namespace braid
