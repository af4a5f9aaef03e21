// The floor over gRPC: ModelInfer, and ModelStreamInfer with one request in flight for each stream.
#pragma once

#include <nghttp2/nghttp2.h>

#include <map>

#include "connection.h"
#include "message.h"

namespace braid::floor {

class Http2Connection : public Connection {
 public:
  Http2Connection(int socket, Calls* calls, std::vector<Connection*>* unsent);
  ~Http2Connection() override;

  bool Read() override;

 private:
  class Stream : public Caller {
   public:
    Stream(Http2Connection* connection, int32_t id) : connection_(connection), id_(id) {}
    ~Stream() override;
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    void SetPath(std::string_view path) { unary_ = path.ends_with("/ModelInfer"); }
    // Takes bytes of the request's body. Returns false if the message is invalid.
    bool Feed(std::string_view bytes);
    void EndRequest();
    void OnAnswer(uint32_t slot) override;

    // Says how much of the body fits into a frame of `size` bytes; sets nghttp2's flags.
    ssize_t FrameSize(size_t size, uint32_t* flags);
    // Hands the next bytes of the body to the connection.
    void AddBody(size_t size);

   private:
    struct Piece {
      const char* data;  // null: from the text
      size_t at;
      size_t size;
    };
    void AddTextPiece();

    Http2Connection* connection_;
    int32_t id_;
    bool unary_ = true;
    bool request_ended_ = false;
    bool answered_ = false;
    bool in_worker_ = false;
    MessageReader reader_;
    uint32_t slot_ = kNoSlot;
    std::string text_;  // of the body that waits to be sent
    std::vector<Piece> pieces_;
    size_t piece_ = 0;
    size_t piece_at_ = 0;
    size_t unframed_ = 0;  // bytes of the body that no frame was made for
  };

  bool Fill() override;

  nghttp2_session* session_ = nullptr;
  std::map<int32_t, Stream> streams_;
};

}  // namespace braid::floor
