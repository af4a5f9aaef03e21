// Outgoing: a response that is being written to a socket.
#pragma once

#include <string>

#include "base/memory_use.h"
#include "protocols/http/message.h"
#include "protocols/net/client_socket.h"

namespace braid {

// Appends the status line and headers of a response, with the empty line that ends them. `length_field`: a
// header line without line end that announces the body's length. Empty: the body lasts until the connection
// ends.
void AppendResponseHead(std::string& out, const HttpResponse& response, std::string_view length_field,
                        std::string_view connection);

// Reused for all responses of a connection. For use by one thread at a time.
class Outgoing {
 public:
  // Takes a response. `connection`: the value of its Connection field; empty: no such field. `omit_body`:
  // leaves out the body (HEAD).
  void Set(HttpResponse response, std::string_view connection, bool omit_body);

  enum class Progress : unsigned char { kDone, kBlocked, kFailed };
  // Writes as much as the socket takes at once, without copying the parts together. Never raises SIGPIPE.
  Progress Send(ClientSocket& socket);

  // Frees the response's memory.
  void Clear();

 private:
  std::string head_;
  std::string body_;
  std::vector<Buffer> tail_;
  MemoryCharge charge_;  // while it waits for the socket
  size_t sent_ = 0;      // bytes sent of part_
  size_t part_ = 0;      // 0: head_, 1: body_, from 2: tail_
};

}  // namespace braid
