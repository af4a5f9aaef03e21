// Messages of gRPC as bytes: those of clients, in the pieces in which they arrived, and those of the server.
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

// The size of the prefix of each message.
inline constexpr size_t kGrpcPrefixBytes = 5;

// Returns a buffer with undefined contents. Throws std::bad_alloc.
Buffer HeapBuffer(size_t size);

// A client's message. It lies in the buffers into which the socket was read.
class GrpcMessage {
 public:
  // The pieces, for reading them in place. Valid until a change.
  WireSegments segments() const { return {segments_.data(), segments_.size()}; }
  size_t size() const { return size_; }
  // Whether the bytes are compressed with `grpc-encoding`.
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

// A message of the server: small parts in one text, large tensors in place.
struct EncodedMessage {
  struct Reference {
    size_t position = 0;  // where the bytes belong in `text`
    Buffer bytes;
  };

  // Adds gRPC's prefix: whether the message is compressed, and its length.
  void AddPrefix();
  // Compresses the message if that makes it smaller. Errors: those of Compress().
  Status CompressBy(ContentCoding coding, int level);

  std::string text;
  size_t begin = 0;  // of the message in `text`; best with room for the prefix before it
  boost::container::small_vector<Reference, 4> references;
  size_t size = 0;
  bool compressed = false;
};

// Returns the bytes of a compressed message. Errors: INVALID_ARGUMENT for invalid bytes, RESOURCE_EXHAUSTED
// for more than `limit`.
Result<GrpcMessage> Decompress(const GrpcMessage& message, size_t limit);

// Reads a message once, from begin to end.
class EncodedMessageReader {
 public:
  explicit EncodedMessageReader(EncodedMessage message)
      : message_(std::move(message)), at_(message_.begin), left_(message_.size) {}

  size_t left() const { return left_; }
  // Moves the next bytes to `to`. REQUIRES: bytes <= left()
  void Take(size_t bytes, OutgoingBytes& to);

 private:
  EncodedMessage message_;
  size_t at_;             // in the text
  size_t reference_ = 0;  // index of the next reference
  size_t offset_ = 0;     // within that reference
  size_t left_;
};

}  // namespace braid
