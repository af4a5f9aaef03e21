// Http2Session: HTTP/2 of one connection of a server, without its socket. Bytes go in (Receive) and out
// (Stage); requests become streams of its owner's, which read what comes and are asked for what is to be
// sent.
//
// nghttp2 does the protocol: frames, HPACK, states, flow control (but see IdleResetFilter). What a client may
// do is limited here: streams at a time, bytes and fields of a head (over all frames of it), resets, and what
// it may have us answer by itself (settings, pings). A client that goes beyond the last two is sent away with
// GOAWAY. A head or trailers that nghttp2 does not send, as they are larger than 64 KiB, reset their stream with INTERNAL_ERROR.
//
// One thread at a time. The owner's functions are called within Receive() and Stage(), and may call the
// session.
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

// The fields of a head, in their order, names in lower case. Pseudo fields (":path") are among them.
class Http2Head {
 public:
  void Add(std::string_view name, std::string_view value);
  size_t size() const { return fields_.size(); }
  std::pair<std::string_view, std::string_view> operator[](size_t field) const;
  // The first of that name; "" when there is none.
  std::string_view Find(std::string_view name) const;
  // Calls visit(value) for each of that name, until it returns true; whether it did.
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

// One field of an answer. The texts live until the call that takes them returns.
struct Http2Field {
  std::string_view name;
  std::string_view value;
};

// A stream of a client, as its owner keeps it.
class Http2Stream {
 public:
  virtual ~Http2Stream() = default;

  // A piece of the request's body, which lies in `block`. What is kept must be told by
  // Http2Session::Consume() before the client may send as much again.
  virtual void OnData(const Buffer& block, std::string_view bytes) = 0;
  // The client sends no more.
  virtual void OnEnd() = 0;
  // The stream is over, and not touched again: all was sent and taken, or (`reset`) it was cut.
  virtual void OnClosed(bool reset) = 0;

  // How many bytes of the body can be sent now, and whether there are no more behind them.
  virtual size_t sendable() const = 0;
  virtual bool complete() const = 0;
  // Gives the next bytes. REQUIRES: bytes <= sendable()
  virtual void Take(size_t bytes, OutgoingBytes& to) = 0;
  // What stands behind the body. Asked for once, when it is complete.
  virtual void AppendTrailers(boost::container::small_vector_base<Http2Field>& fields) = 0;
};

class Http2Session {
 public:
  struct Limits {
    uint32_t streams = 1024;  // at a time
    uint32_t stream_window = 4U << 20;
    uint32_t connection_window = 16U << 20;
    uint32_t frame_bytes = 1U << 20;
    size_t head_bytes = size_t{32} << 10;
    size_t head_fields = 256;
    // Of streams that the client resets, and again of those that it has the session reset by breaking the protocol.
    uint64_t reset_burst = 1000;
    uint64_t resets_per_second = 200;
  };

  class Owner {
   public:
    virtual ~Owner() = default;
    // The head of a request is complete. `fault`: why it is not good, if it is beyond a limit. The session is
    // to be answered (Respond(), RespondAtOnce()), now or later; a stream is told what comes until
    // OnClosed().
    virtual std::shared_ptr<Http2Stream> OnRequest(int32_t id, Http2Head head, const Status& fault) = 0;
    virtual void OnPing() {}
    // The client has opened more streams than it may at a time; this one was refused.
    virtual void OnStreamRefused() {}
    // The connection ends for a fault of the client's: the error of HTTP/2 that it is told, and a text.
    virtual void OnFault(uint32_t /*error*/, std::string_view /*text*/) {}
  };

  Http2Session(Owner& owner, const Limits& limits);
  ~Http2Session();
  Http2Session(const Http2Session&) = delete;
  Http2Session& operator=(const Http2Session&) = delete;

  // Takes bytes of the client, which lie in `block`. Errors: the client does not speak HTTP/2; what is staged
  // then may still tell it so.
  Status Receive(const Buffer& block, std::string_view bytes);
  // Appends what is to be written, until `most` bytes are there or there is no more.
  // Errors: not all of it is there, and the connection is to be closed.
  Status Stage(OutgoingBytes& to, size_t most);
  // Whether the client has begun as one of HTTP/2 does: with its preface and settings.
  bool begun() const { return begun_; }
  // Nothing is to be read or written any more: the connection can be closed.
  bool over() const;

  // Answers a request with a head; body and trailers are asked of the stream.
  void Respond(int32_t id, std::span<const Http2Field> head);
  // Answers it with a head alone, and takes no more of its body.
  void RespondAtOnce(int32_t id, std::span<const Http2Field> head);
  // sendable() or complete() of a stream has changed.
  void Resume(int32_t id);
  // The client may send so many bytes again: on its connection, and on the stream.
  void Consume(int32_t id, size_t bytes);
  // On the connection alone: the stream is over.
  void ConsumeConnection(size_t bytes);
  void Ping();
  // Calls visit(stream) for each that is open.
  template <class Visit>
  void ForEach(Visit&& visit) const {
    for (const Request* request : requests_) {
      if (request->stream != nullptr) visit(*request->stream);
    }
  }
  bool has_streams() const { return !requests_.empty(); }
  // The connection is ended with an error as soon as that is told.
  void Terminate(uint32_t error, std::string_view text);
  // Closes all streams, each with OnClosed(): the client has gone.
  void CloseAll();
  // From now on none is taken; those under way go on. `error` 0: no error.
  void GoAway(uint32_t error, std::string_view text);

 private:
  // A stream as nghttp2 knows it.
  struct Request {
    const int32_t id;
    Http2Head head = {};
    size_t head_bytes = 0;
    Status fault = {};
    std::shared_ptr<Http2Stream> stream = {};  // once the head is complete; shared with the owner
    bool complete_told = false;                // the trailers are submitted
  };
  struct Callbacks;

  // Counts a stream that is reset because its client broke the protocol. False: that was one too many.
  bool CountBrokenStream();

  Owner& owner_;
  const Limits limits_;
  nghttp2_session* session_ = nullptr;
  IdleResetFilter filter_;
  bool begun_ = false;
  const Buffer* block_ = nullptr;          // within Receive()
  OutgoingBytes* outgoing_ = nullptr;      // within Stage()
  size_t most_ = 0;                        // likewise
  std::unordered_set<Request*> requests_;  // all that are open
  double faults_left_;                     // streams that the client may break before it is sent away
  std::chrono::steady_clock::time_point faults_counted_ = std::chrono::steady_clock::now();
};

}  // namespace braid
