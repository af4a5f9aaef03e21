// ResponseWriter: writes the response to the current request to a socket, in one piece or in parts
// (StreamOutput).
#pragma once

#include <string_view>
#include <utility>

#include "protocols/http/outgoing.h"
#include "protocols/http/stream_output.h"

namespace braid {

// For use by one thread at a time, except for the stream's own functions.
class ResponseWriter {
 public:
  explicit ResponseWriter(size_t max_waiting) : stream_(max_waiting) {}

  using Progress = Outgoing::Progress;

  void Set(HttpResponse response, std::string_view connection, bool omit_body) {
    whole_.Set(std::move(response), connection, omit_body);
  }
  // Begins a response in parts.
  void BeginStream(const HttpResponse& head, bool chunked, bool close) {
    streaming_ = true;
    closes_ = close;
    stream_.Begin(head, chunked, close);
  }
  StreamOutput& stream() { return stream_; }
  // Whether the connection ends with the stream.
  bool closes() const { return closes_; }
  // All parts were sent.
  void EndStream() { streaming_ = false; }

  // Writes as much of the response as the socket takes.
  Progress Send(ClientSocket& socket) { return streaming_ ? stream_.Flush(socket) : whole_.Send(socket); }

  // Drops the response.
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
