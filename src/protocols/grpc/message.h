// Messages of gRPC as bytes: those that clients send, in the pieces in which they came, and ours.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <string>
#include <string_view>

#include "protocols/grpc/protobuf_reader.h"
#include "protocols/http2/outgoing_bytes.h"
#include "protocols/net/compression.h"
#include "tensor/buffer.h"

namespace braid {

// In front of each message.
inline constexpr size_t kGrpcPrefixBytes = 5;

// Of undefined contents. Throws std::bad_alloc.
Buffer HeapBuffer(size_t size);

// A message of a client, which lies where it was read from the socket.
class GrpcMessage {
 public:
  // The pieces, for reading them in place. Valid while this is not changed.
  WireSegments segments() const { return {segments_.data(), segments_.size()}; }
  size_t size() const { return size_; }
  // Whether the bytes are compressed, as `grpc-encoding` says.
  bool compressed = false;

  void Add(Buffer piece) {
    if (piece.empty()) return;
    size_ += piece.size();
    segments_.push_back(piece.text());
    pieces_.push_back(std::move(piece));
  }

 private:
  boost::container::small_vector<Buffer, 2> pieces_;
  boost::container::small_vector<std::string_view, 2> segments_;
  size_t size_ = 0;
};

// A message of ours: what is small in one text, and large tensors where they lie.
struct EncodedMessage {
  struct Reference {
    size_t position = 0;  // in `text`, where the bytes belong
    Buffer bytes;
  };

  // Puts the prefix of gRPC in front: whether the message is compressed, and its length.
  void AddPrefix();
  // Compresses it, where that makes it smaller. Errors: those of Compress().
  Status CompressBy(ContentCoding coding, int level);

  std::string text;
  size_t begin = 0;  // of the message, in `text`; best with room for the prefix before it
  boost::container::small_vector<Reference, 4> references;
  size_t size = 0;
  bool compressed = false;
};

// The bytes of a compressed message. Errors: INVALID_ARGUMENT for bytes that are not what they should be, and
// RESOURCE_EXHAUSTED for more than `limit`.
Result<GrpcMessage> Decompress(const GrpcMessage& message, size_t limit);

// Goes through a message once.
class EncodedMessageReader {
 public:
  explicit EncodedMessageReader(EncodedMessage message)
      : message_(std::move(message)), at_(message_.begin), left_(message_.size) {}

  size_t left() const { return left_; }
  // REQUIRES: bytes <= left()
  void Take(size_t bytes, OutgoingBytes& to);

 private:
  EncodedMessage message_;
  size_t at_;             // in the text
  size_t reference_ = 0;  // the next one
  size_t offset_ = 0;     // in it
  size_t left_;
};

}  // namespace braid
