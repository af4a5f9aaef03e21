// The body of an answer that comes in parts, on its way into a socket. Internal to the HTTP server core.
//
// The thread that answers adds parts, which are written at once as far as the socket takes them. What it does
// not take waits here and is written by Flush(), on the io thread, when the socket is ready. Begin(),
// Append() and End() come from one thread at a time, the others from any.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/memory_use.h"
#include "base/mutex.h"
#include "protocols/http/message.h"
#include "protocols/http/outgoing.h"
#include "protocols/net/client_socket.h"

struct iovec;

namespace braid {

class StreamOutput {
 public:
  // While more than `max_waiting` bytes wait, no further part is taken.
  explicit StreamOutput(size_t max_waiting) : max_waiting_(max_waiting) {}

  // Starts an answer; its head leaves with the first part. `chunked`: parts are chunks of HTTP/1.1, otherwise
  // the body lasts until the connection ends.
  void Begin(const HttpResponse& head, bool chunked, bool close);

  enum class Added : unsigned char {
    kSent,     // nothing waits
    kBlocked,  // the socket took no more: Flush() has to be called when it does
    kWaits,    // something waited before, and this does now
    kFailed,   // the client has gone
    kFull,     // too much waited; from now on everything fails
  };
  Added Append(ClientSocket& socket, std::string_view part);
  Added End(ClientSocket& socket);

  Outgoing::Progress Flush(ClientSocket& socket);

  // Drops what waits; from now on everything fails. Any thread.
  void Abandon();

 private:
  Added Add(ClientSocket& socket, std::span<const iovec> pieces) BRAID_REQUIRES(mutex_);
  void Fail() BRAID_REQUIRES(mutex_);

  const size_t max_waiting_;

  Mutex mutex_;  // held while writing to the socket, which does not block

  std::string head_ BRAID_GUARDED_BY(mutex_);  // not yet written
  bool chunked_ BRAID_GUARDED_BY(mutex_) = false;
  bool failed_ BRAID_GUARDED_BY(mutex_) = false;
  std::string waiting_ BRAID_GUARDED_BY(mutex_);
  size_t sent_ BRAID_GUARDED_BY(mutex_) = 0;  // of waiting_
  MemoryCharge charge_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
