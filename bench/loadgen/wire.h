// Protocol buffers' wire format, read and written by hand: the generator shares no message code with the
// servers that it measures, and reads responses in place, whatever pieces they arrive in.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "expectation.h"

namespace braid::bench {

// Appends fields to a message.
class WireWriter {
 public:
  void Varint(uint32_t field, uint64_t value);
  // A string, bytes, or an embedded message.
  void Bytes(uint32_t field, std::string_view bytes);
  std::string Take() { return std::move(message_); }

 private:
  void RawVarint(uint64_t value);
  std::string message_;
};

// Walks over the fields of a message. Never reads past its end; malformed input makes it stop with ok()
// false.
//
//   while (reader.Next()) {
//     if (reader.IsBytes(1)) name = JoinPieces(reader.TakeBytes());
//     else reader.Skip();
//   }
//
// Exactly one of the Take functions or Skip follows each successful Next.
class WireReader {
 public:
  // `pieces` outlives the reader.
  explicit WireReader(const Pieces& pieces) : pieces_(&pieces), left_(PiecesSize(pieces)) {}

  // Moves to the next field; false at the end of the message or when it is malformed.
  bool Next();
  // Whether the field has this number and a length.
  bool IsBytes(uint32_t field) const { return key_ == ((uint64_t{field} << 3) | 2); }
  Pieces TakeBytes();
  // A reader of the field's bytes as a message.
  WireReader TakeMessage();
  void Skip();
  bool ok() const { return ok_; }

 private:
  uint64_t RawVarint();
  size_t TakeLength();
  // Moves `size` bytes on, adding them to `out` where given.
  void Advance(size_t size, Pieces* out);

  const Pieces* pieces_;
  size_t piece_ = 0;
  size_t offset_ = 0;
  size_t left_;
  uint64_t key_ = 0;
  bool ok_ = true;
};

std::string JoinPieces(const Pieces& pieces);

}  // namespace braid::bench
