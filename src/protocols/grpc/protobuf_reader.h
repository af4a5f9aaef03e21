// Reads the protobuf wire format in place from bytes that lie in several pieces, as gRPC hands a message
// over.
//
// Accepts and refuses what protobuf's own parser does: varints of up to ten bytes, tags and lengths of up to
// five, unknown fields and groups skipped, nesting bounded. Every read is checked against the message's end,
// nothing is allocated by a length alone. A read that returns false has met a malformed message; the reader
// must then be dropped.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace braid {

// The pieces of one message, in order. Not owned.
using WireSegments = std::span<const std::string_view>;

// Where a part of a message lies, for reading it later.
struct WireRange {
  size_t segment = 0;
  size_t offset = 0;  // in that segment
  size_t size = 0;    // may reach over several segments
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
  // As protobuf's: messages and groups inside each other.
  static constexpr int kMaxDepth = 100;

  explicit ProtobufReader(WireSegments segments);
  ProtobufReader(WireSegments segments, const WireRange& range);

  // Bytes up to the end of the message that is being read.
  size_t remaining() const { return remaining_; }

  // Refuses field number 0 and wire types that do not exist.
  bool ReadTag(WireTag& tag);
  bool ReadVarint(uint64_t& value);
  bool ReadFixed64(uint64_t& value) { return ReadCopy(&value, sizeof(value)); }
  // The length of a length-delimited field, checked against what remains.
  bool ReadLength(size_t& length);
  // A length-delimited text, which must be UTF-8.
  bool ReadText(std::string& text);
  // A length-delimited field: its place, and the reader moves past it.
  bool ReadRange(WireRange& range);
  bool ReadCopy(void* to, size_t size);
  bool Skip(size_t size);
  // Skips the field whose tag was just read.
  bool SkipField(const WireTag& tag);

  // Reads a nested message: body(field tag) is called for each of its fields and must consume it.
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
  // The fields up to the end of the present message.
  template <class Body>
  bool ReadFields(Body body) {
    WireTag tag;
    while (remaining_ > 0) {
      if (!ReadTag(tag) || !body(tag)) return false;
    }
    return true;
  }
  // Reads one field of a repeated number, packed or not: element() is called where each element begins and
  // must consume it. REQUIRES: tag.type is kBytes or the element's own type.
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
  // Reads one field of a repeated element, packed or not, and writes its elements at `to` as tensors have
  // them, the next of which goes behind: a number in `size` bytes, its low ones; a bool as 0 or 1; a text or
  // bytes behind its length of four bytes. REQUIRES: as ReadRepeated(); there is room.
  enum class Element : uint8_t { kVarint, kBool, kFixed, kBytes };
  bool CopyRepeated(const WireTag& tag, Element element, size_t size, std::byte*& to);

 private:
  // Bytes at cursor_ that belong to the message and lie together; moves to the next segment when there are
  // none.
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

// Copies the bytes of a range to `to`, which has room for range.size.
void CopyRange(WireSegments segments, const WireRange& range, std::byte* to);

}  // namespace braid
