// Http2Session: the HTTP/2 protocol of one server connection, without its socket. Bytes go in (Receive) and
// out (Stage). Each request becomes a stream of the owner, which receives the request's body and provides the
// response's.
//
// nghttp2 does the protocol: frames, HPACK, states, flow control (but see IdleResetFilter). The session adds
// limits on the client: concurrent streams, bytes and fields of a head (over all its frames), resets, and
// frames that require an automatic reply (settings, pings). A client that exceeds one of the last two is
// disconnected with GOAWAY. If nghttp2 refuses to send a head or trailers, because they are larger than 64
// KiB, the stream is reset with INTERNAL_ERROR.
//
// For use by one thread at a time. The owner's functions are called within Receive() and Stage(), and may
// call the session.
#pragma once

#include <boost/container/small_vector.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/status.h"
#include "protocols/http2/idle_reset_filter.h"
#include "protocols/http2/outgoing_bytes.h"
#include "tensor/buffer.h"

struct nghttp2_session;

namespace braid {

// The fields of a head in order, including pseudo fields (":path"). Names are in lower case.
class Http2Head {
 public:
  void Add(std::string_view name, std::string_view value);
  size_t size() const { return fields_.size(); }
  std::pair<std::string_view, std::string_view> operator[](size_t field) const;
  // Returns the first value of that name; "" without one.
  std::string_view Find(std::string_view name) const;
  // Calls visit(value) for each field of that name, until it returns true. Returns whether it did.
  template <class Visit>
  bool Any(std::string_view name, Visit&& visit) const {
    for (size_t i = 0; i < size(); ++i) {
      const auto [its_name, value] = (*this)[i];
      if (its_name == name && visit(value)) return true;
    }
    return false;
  }

 private:
  struct Field {
    uint32_t begin;
    uint32_t name;
    uint32_t value;
  };
  std::string text_;
  std::vector<Field> fields_;
};

// One field of a response. The texts live until the call that takes them returns.
struct Http2Field {
  std::string_view name;
  std::string_view value;
};

// A stream of a client, as the owner implements it.
class Http2Stream {
 public:
  virtual ~Http2Stream() = default;

  // Receives a piece of the request's body, which lies in `block`. The client may send as many bytes again
  // only after Http2Session::Consume().
  virtual void OnData(const Buffer& block, std::string_view bytes) = 0;
  // The client has ended its side.
  virtual void OnEnd() = 0;
  // The stream is over and not used again: everything was sent and received, or (`reset`) it was reset.
  virtual void OnClosed(bool reset) = 0;

  // The number of bytes that can be sent now, and whether they are the last ones of the body.
  virtual size_t sendable() const = 0;
  virtual bool complete() const = 0;
  // Appends the next bytes to `to`. REQUIRES: bytes <= sendable()
  virtual void Take(size_t bytes, OutgoingBytes& to) = 0;
  // Appends the trailers. Called once, when the body is complete.
  virtual void AppendTrailers(boost::container::small_vector_base<Http2Field>& fields) = 0;
};

class Http2Session {
 public:
  struct Limits {
    uint32_t streams = 1024;  // concurrent ones
    uint32_t stream_window = 4U << 20;
    uint32_t connection_window = 16U << 20;
    uint32_t frame_bytes = 1U << 20;
    size_t head_bytes = size_t{32} << 10;
    size_t head_fields = 256;
    // Limits of streams that the client resets. The same limits apply separately to streams that the session
    // resets because the client broke the protocol.
    uint64_t reset_burst = 1000;
    uint64_t resets_per_second = 200;
  };

  class Owner {
   public:
    virtual ~Owner() = default;
    // The head of a request is complete. `fault`: the limit that it exceeds, if any. The owner answers with
    // Respond() or RespondAtOnce(), now or later. Returns the stream that receives the body until OnClosed();
    // null: none.
    virtual std::shared_ptr<Http2Stream> OnRequest(int32_t id, Http2Head head, const Status& fault) = 0;
    virtual void OnPing() {}
    // The session has refused a stream beyond the limit of concurrent ones.
    virtual void OnStreamRefused() {}
    // The connection ends for a fault of the client, with this HTTP/2 error and text.
    virtual void OnFault(uint32_t /*error*/, std::string_view /*text*/) {}
  };

  Http2Session(Owner& owner, const Limits& limits);
  ~Http2Session();
  Http2Session(const Http2Session&) = delete;
  Http2Session& operator=(const Http2Session&) = delete;

  // Takes bytes of the client, which lie in `block`. Errors: the client does not speak HTTP/2. Stage() may
  // still produce a message that tells the client.
  Status Receive(const Buffer& block, std::string_view bytes);
  // Appends bytes to send, until `to` has `most` bytes or none are left.
  // Errors: bytes are missing, and the connection must be closed.
  Status Stage(OutgoingBytes& to, size_t most);
  // Whether the client has sent its HTTP/2 preface and settings.
  bool begun() const { return begun_; }
  // Whether nothing is left to read or write, so that the connection can be closed.
  bool over() const;

  // Answers a request with a head. The session asks the stream for body and trailers.
  void Respond(int32_t id, std::span<const Http2Field> head);
  // Answers a request with a head only, and takes no more of its body.
  void RespondAtOnce(int32_t id, std::span<const Http2Field> head);
  // Reports that sendable() or complete() of a stream has changed.
  void Resume(int32_t id);
  // Allows the client to send so many bytes again, on its connection and on the stream.
  void Consume(int32_t id, size_t bytes);
  // Likewise on the connection only, for a stream that is over.
  void ConsumeConnection(size_t bytes);
  void Ping();
  // Calls visit(stream) for each open stream.
  template <class Visit>
  void ForEach(Visit&& visit) const {
    for (const Request* request : requests_) {
      if (request->stream != nullptr) visit(*request->stream);
    }
  }
  bool has_streams() const { return !requests_.empty(); }
  // Ends the connection with an error, as soon as the error is sent.
  void Terminate(uint32_t error, std::string_view text);
  // Closes all streams, with OnClosed() for each, after the client has gone.
  void CloseAll();
  // Takes no new streams from now on; open ones continue. `error` 0: no error.
  void GoAway(uint32_t error, std::string_view text);

 private:
  // A stream in nghttp2's view.
  struct Request {
    const int32_t id;
    Http2Head head = {};
    size_t head_bytes = 0;
    Status fault = {};
    std::shared_ptr<Http2Stream> stream = {};  // set once the head is complete; shared with the owner
    bool complete_told = false;                // the trailers are submitted
  };
  struct Callbacks;

  // Counts a stream that was reset because its client broke the protocol. Returns false beyond the limit.
  bool CountBrokenStream();

  Owner& owner_;
  const Limits limits_;
  nghttp2_session* session_ = nullptr;
  IdleResetFilter filter_;
  bool begun_ = false;
  const Buffer* block_ = nullptr;          // set within Receive()
  OutgoingBytes* outgoing_ = nullptr;      // set within Stage()
  size_t most_ = 0;                        // likewise
  std::unordered_set<Request*> requests_;  // all open ones
  double faults_left_;                     // how many streams the client may still break
  std::chrono::steady_clock::time_point faults_counted_ = std::chrono::steady_clock::now();
};

}  // namespace braid
