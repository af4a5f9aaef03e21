// The answer to the present request on its way into a socket: in one piece, or in parts (StreamOutput).
#pragma once

#include <string_view>
#include <utility>

#include "protocols/http/outgoing.h"
#include "protocols/http/stream_output.h"

namespace braid {

// One thread at a time, but for the stream's own functions.
class ResponseWriter {
 public:
  explicit ResponseWriter(size_t max_waiting) : stream_(max_waiting) {}

  using Progress = Outgoing::Progress;

  // As Outgoing::Set().
  void Set(HttpResponse response, std::string_view connection, bool omit_body) {
    whole_.Set(std::move(response), connection, omit_body);
  }
  // From here on it comes in parts.
  void BeginStream(const HttpResponse& head, bool chunked, bool close) {
    streaming_ = true;
    closes_ = close;
    stream_.Begin(head, chunked, close);
  }
  StreamOutput& stream() { return stream_; }
  // Whether the connection ends with the stream.
  bool closes() const { return closes_; }
  // All of it has left.
  void EndStream() { streaming_ = false; }

  // Writes as much as the socket takes of what there is.
  Progress Send(ClientSocket& socket) { return streaming_ ? stream_.Flush(socket) : whole_.Send(socket); }

  // Lets go of it.
  void Clear() {
    whole_.Clear();
    streaming_ = false;
  }

 private:
  Outgoing whole_;
  StreamOutput stream_;
  bool streaming_ = false;
  bool closes_ = false;
};

}  // namespace braid
