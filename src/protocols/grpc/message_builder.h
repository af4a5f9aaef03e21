// GrpcMessageBuilder: builds a protobuf message without protobuf. One text holds all small fields and small
// tensors. Large tensors are referenced in place, and their buffers are released when they were sent.
#pragma once

#include <bit>
#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "protocols/grpc/message.h"
#include "protocols/grpc/protobuf_reader.h"
#include "tensor/buffer.h"

namespace braid {

// Tensors of at least this size are not copied.
inline constexpr size_t kReferencedTensorBytes = 4096;

// Sizes of encoded fields, for the lengths of messages that contain them. REQUIRES: the field's number is
// below 16, so that its tag is one byte.
inline size_t VarintSize(uint64_t value) { return static_cast<size_t>((std::bit_width(value | 1) + 6) / 7); }
inline size_t LengthDelimitedSize(size_t size) { return 1 + VarintSize(size) + size; }
inline size_t TextFieldSize(std::string_view text) { return LengthDelimitedSize(text.size()); }

class GrpcMessageBuilder {
 public:
  GrpcMessageBuilder() {
    head_.reserve(512);
    head_.append(kPrefixRoom, '\0');
  }

  void Varint(uint64_t value) {
    while (value >= 0x80) {
      head_ += static_cast<char>(value | 0x80);
      value >>= 7;
    }
    head_ += static_cast<char>(value);
  }
  void Tag(uint32_t field, WireType type) { Varint(field << 3 | static_cast<uint32_t>(type)); }
  // Begins a field of `length` bytes, which the caller writes next.
  void Length(uint32_t field, size_t length) {
    Tag(field, WireType::kBytes);
    Varint(length);
  }
  void Text(uint32_t field, std::string_view text) {
    Length(field, text.size());
    head_ += text;
  }
  // Writes a proto3 field without presence, which is left out if it is empty.
  void OptionalText(uint32_t field, std::string_view text) {
    if (!text.empty()) Text(field, text);
  }
  // Appends encoded fields.
  void Append(std::string_view fields) { head_ += fields; }
  void Fixed64(uint32_t field, uint64_t value) {
    Tag(field, WireType::kFixed64);
    head_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void Bytes(uint32_t field, const Buffer& bytes) {
    Length(field, bytes.size());
    if (bytes.size() < kReferencedTensorBytes) {
      head_ += bytes.text();
    } else {
      references_.push_back({head_.size(), bytes});
      referenced_bytes_ += bytes.size();
    }
  }

  size_t size() const { return head_.size() - start_ + referenced_bytes_; }
  // The encoded fields. REQUIRES: no bytes were referenced.
  std::string_view text() const { return std::string_view(head_).substr(start_); }

  // Makes the fields so far the value of a length-delimited field, and puts `before` before it. Call it at
  // most once.
  void Wrap(std::string_view before, uint32_t field);

  // Returns the message. Call it once, at the end.
  EncodedMessage Build();

 private:
  // Room before the message, so that Wrap() need not move it.
  static constexpr size_t kPrefixRoom = 16;

  std::string head_;
  size_t start_ = kPrefixRoom;
  boost::container::small_vector<EncodedMessage::Reference, 4> references_;
  size_t referenced_bytes_ = 0;
};

}  // namespace braid
