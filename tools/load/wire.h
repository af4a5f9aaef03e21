// A reader and a writer of protocol buffers' wire format. This folder shares no message code with the server,
// so the two cannot make the same mistake. The reader works in place, on a message in any number of pieces.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "load/pieces.h"

namespace braid::load {

// Appends fields to a message.
class WireWriter {
 public:
  void Varint(uint32_t field, uint64_t value);
  // Appends a string, bytes, or an embedded message.
  void Bytes(uint32_t field, std::string_view bytes);
  void Double(uint32_t field, double value);
  std::string Take() { return std::move(message_); }

 private:
  void RawVarint(uint64_t value);
  std::string message_;
};

// Iterates over the fields of a message. Never reads past its end; on malformed input it stops and ok() is
// false.
//
//   while (reader.Next()) {
//     if (reader.IsBytes(1)) name = JoinPieces(reader.TakeBytes());
//   }
//
// Call at most one of the Take functions after each successful Next(). A field that is not taken is skipped.
class WireReader {
 public:
  // `pieces` outlives the reader.
  explicit WireReader(const Pieces& pieces) : pieces_(&pieces), left_(PiecesSize(pieces)) {}

  // Moves to the next field; false at the end of the message or if it is malformed.
  bool Next();
  // Whether the field has this number and is length-delimited.
  bool IsBytes(uint32_t field) const { return key_ == ((uint64_t{field} << 3) | 2); }
  // Whether the field has this number and is a varint (an integer, bool or enum).
  bool IsVarint(uint32_t field) const { return key_ == (uint64_t{field} << 3); }
  Pieces TakeBytes();
  std::string TakeString() { return JoinPieces(TakeBytes()); }
  uint64_t TakeVarint() {
    pending_ = false;
    return RawVarint();
  }
  // Appends the field's numbers, repeated or packed.
  void TakeVarints(std::vector<int64_t>& numbers);
  // Returns a reader of the field's bytes as a message.
  WireReader TakeMessage();
  // False if the message is malformed.
  bool ok() const { return ok_; }

 private:
  uint64_t RawVarint();
  size_t TakeLength();
  void Skip();
  // Advances by `size` bytes, and appends them to `out` if it is not null.
  void Advance(size_t size, Pieces* out);

  const Pieces* pieces_;
  size_t piece_ = 0;
  size_t offset_ = 0;
  size_t left_;
  uint64_t key_ = 0;
  bool pending_ = false;  // the value of `key_` has not been taken
  bool ok_ = true;
};

}  // namespace braid::load
