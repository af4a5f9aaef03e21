// ProtobufReader: reads the protobuf wire format in place, from a message that lies in several pieces.
//
// It accepts and refuses the same bytes as protobuf's own parser: varints of up to ten bytes, tags and
// lengths of up to five, unknown fields and groups skipped, nesting bounded. Every read is checked against
// the message's end, and a length alone allocates nothing. A read that returns false has found a malformed
// message. Drop the reader then.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace braid {

// The pieces of one message in order. Not owned.
using WireSegments = std::span<const std::string_view>;

// The place of a part of a message, for reading it later.
struct WireRange {
  size_t segment = 0;
  size_t offset = 0;  // in that segment
  size_t size = 0;    // may extend over several segments
};

enum class WireType : uint8_t {
  kVarint = 0,
  kFixed64 = 1,
  kBytes = 2,
  kGroupStart = 3,
  kGroupEnd = 4,
  kFixed32 = 5
};

struct WireTag {
  uint32_t field = 0;
  WireType type = WireType::kVarint;
};

class ProtobufReader {
 public:
  // The nesting limit of messages and groups, as in protobuf.
  static constexpr int kMaxDepth = 100;

  explicit ProtobufReader(WireSegments segments);
  ProtobufReader(WireSegments segments, const WireRange& range);

  // The number of bytes to the end of the current message.
  size_t remaining() const { return remaining_; }

  // Refuses field number 0 and unknown wire types.
  bool ReadTag(WireTag& tag);
  bool ReadVarint(uint64_t& value);
  bool ReadFixed64(uint64_t& value) { return ReadCopy(&value, sizeof(value)); }
  // Reads the length of a length-delimited field and checks it against remaining().
  bool ReadLength(size_t& length);
  // Reads a length-delimited text, which must be UTF-8.
  bool ReadText(std::string& text);
  // Sets `range` to the place of a length-delimited field, and skips the field.
  bool ReadRange(WireRange& range);
  bool ReadCopy(void* to, size_t size);
  bool Skip(size_t size);
  // Skips the field whose tag was just read.
  bool SkipField(const WireTag& tag);

  // Reads a nested message. Calls body(tag) for each of its fields, which must consume the field.
  template <class Body>
  bool ReadMessage(Body body) {
    size_t length = 0;
    if (!ReadLength(length) || depth_ >= kMaxDepth) return false;
    const size_t after = remaining_ - length;
    remaining_ = length;
    ++depth_;
    const bool ok = ReadFields(body);
    --depth_;
    remaining_ = after;
    return ok;
  }
  // Reads the fields up to the end of the current message.
  template <class Body>
  bool ReadFields(Body body) {
    WireTag tag;
    while (remaining_ > 0) {
      if (!ReadTag(tag) || !body(tag)) return false;
    }
    return true;
  }
  // Reads one field of a repeated number, packed or not. Calls element() for each element, which must consume
  // it. REQUIRES: tag.type is kBytes or the element's own type.
  template <class Element>
  bool ReadRepeated(const WireTag& tag, Element element) {
    if (tag.type != WireType::kBytes) return element();
    size_t length = 0;
    if (!ReadLength(length)) return false;
    const size_t after = remaining_ - length;
    remaining_ = length;
    while (remaining_ > 0) {
      if (!element()) return false;
    }
    remaining_ = after;
    return true;
  }
  // Reads one field of a repeated element, packed or not. Writes its elements to `to` as tensors have them,
  // and advances `to`. A number becomes its low `size` bytes; a bool becomes 0 or 1; texts and bytes follow
  // their length of four bytes. REQUIRES: as ReadRepeated(); `to` has enough room.
  enum class Element : uint8_t { kVarint, kBool, kFixed, kBytes };
  bool CopyRepeated(const WireTag& tag, Element element, size_t size, std::byte*& to);

 private:
  // Returns how many bytes of the message lie together at cursor_. Moves to the next segment at the end of
  // one.
  size_t Contiguous();
  bool ReadByte(uint8_t& byte);
  bool ReadVarintOfAtMost(int bytes, uint64_t& value);
  void Advance(size_t size) {
    cursor_ += size;
    remaining_ -= size;
  }

  WireSegments segments_;
  size_t segment_ = 0;
  const char* cursor_ = nullptr;
  const char* segment_end_ = nullptr;
  size_t remaining_ = 0;
  int depth_ = 0;
};

// Copies the bytes of a range to `to`. REQUIRES: `to` has room for range.size.
void CopyRange(WireSegments segments, const WireRange& range, std::byte* to);

}  // namespace braid
