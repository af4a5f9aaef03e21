// StreamOutput: writes the body of a response in parts to a socket. Internal to the HTTP server core.
//
// The responding thread adds parts, which are written at once as far as the socket takes them. The rest waits
// here, and the io thread writes it with Flush() when the socket is ready. Begin(), Append() and End() come
// from one thread at a time, the other functions from any thread.
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
  // Takes no more parts while more than `max_waiting` bytes wait.
  explicit StreamOutput(size_t max_waiting) : max_waiting_(max_waiting) {}

  // Begins a response. Its head leaves with the first part. `chunked`: parts are chunks of HTTP/1.1;
  // otherwise the body lasts until the connection ends.
  void Begin(const HttpResponse& head, bool chunked, bool close);

  enum class Added : unsigned char {
    kSent,     // nothing waits
    kBlocked,  // the socket took no more: call Flush() when it is ready
    kWaits,    // earlier bytes were waiting, and these wait too
    kFailed,   // the client has gone
    kFull,     // too many bytes waited; from now on all calls fail
  };
  Added Append(ClientSocket& socket, std::string_view part);
  Added End(ClientSocket& socket);

  Outgoing::Progress Flush(ClientSocket& socket);

  // Drops waiting bytes; from now on all calls fail. Any thread.
  void Abandon();

 private:
  Added Add(ClientSocket& socket, std::span<const iovec> pieces) BRAID_REQUIRES(mutex_);
  void Fail() BRAID_REQUIRES(mutex_);

  const size_t max_waiting_;

  Mutex mutex_;  // held during writes to the socket, which do not block

  std::string head_ BRAID_GUARDED_BY(mutex_);  // not yet sent
  bool chunked_ BRAID_GUARDED_BY(mutex_) = false;
  bool failed_ BRAID_GUARDED_BY(mutex_) = false;
  std::string waiting_ BRAID_GUARDED_BY(mutex_);
  size_t sent_ BRAID_GUARDED_BY(mutex_) = 0;  // of waiting_
  MemoryCharge charge_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
