#include "protocols/grpc/protobuf_reader.h"

#include <algorithm>
#include <limits>

#include "base/utf8.h"

namespace braid {

ProtobufReader::ProtobufReader(WireSegments segments) : segments_(segments) {
  for (std::string_view segment : segments) remaining_ += segment.size();
  if (!segments_.empty()) {
    cursor_ = segments_[0].data();
    segment_end_ = cursor_ + segments_[0].size();
  }
}

ProtobufReader::ProtobufReader(WireSegments segments, const WireRange& range)
    : segments_(segments), segment_(range.segment), remaining_(range.size) {
  if (segment_ < segments_.size()) {
    cursor_ = segments_[segment_].data() + range.offset;
    segment_end_ = segments_[segment_].data() + segments_[segment_].size();
  }
}

size_t ProtobufReader::Contiguous() {
  if (remaining_ == 0) return 0;
  while (cursor_ == segment_end_) {
    ++segment_;
    cursor_ = segments_[segment_].data();
    segment_end_ = cursor_ + segments_[segment_].size();
  }
  return std::min(static_cast<size_t>(segment_end_ - cursor_), remaining_);
}

bool ProtobufReader::ReadByte(uint8_t& byte) {
  if (Contiguous() == 0) return false;
  byte = static_cast<uint8_t>(*cursor_);
  Advance(1);
  return true;
}

bool ProtobufReader::ReadVarintOfAtMost(int bytes, uint64_t& value) {
  value = 0;
  for (int i = 0; i < bytes; ++i) {
    uint8_t byte = 0;
    if (!ReadByte(byte)) return false;
    value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) return true;
  }
  return false;
}

bool ProtobufReader::ReadVarint(uint64_t& value) {
  // Most numbers have one byte, and most bytes are not at the end of a segment.
  const size_t together = Contiguous();
  if (together >= 10) {
    value = 0;
    const char* at = cursor_;
    for (int shift = 0; shift < 70; shift += 7) {
      const auto byte = static_cast<uint8_t>(*at++);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) {
        Advance(static_cast<size_t>(at - cursor_));
        return true;
      }
    }
    return false;
  }
  return ReadVarintOfAtMost(10, value);
}

bool ProtobufReader::ReadTag(WireTag& tag) {
  uint64_t value = 0;
  if (!ReadVarintOfAtMost(5, value)) return false;
  // Protobuf keeps 32 bits of a tag.
  const auto bits = static_cast<uint32_t>(value);
  tag.field = bits >> 3;
  tag.type = static_cast<WireType>(bits & 7);
  return tag.field != 0 && (bits & 7) <= 5;
}

bool ProtobufReader::ReadLength(size_t& length) {
  uint64_t value = 0;
  if (!ReadVarintOfAtMost(5, value)) return false;
  if (value > static_cast<uint64_t>(std::numeric_limits<int32_t>::max()) || value > remaining_) return false;
  length = static_cast<size_t>(value);
  return true;
}

bool ProtobufReader::ReadCopy(void* to, size_t size) {
  if (size > remaining_) return false;
  auto* out = static_cast<char*>(to);
  while (size > 0) {
    const size_t part = std::min(Contiguous(), size);
    std::memcpy(out, cursor_, part);
    Advance(part);
    out += part;
    size -= part;
  }
  return true;
}

bool ProtobufReader::ReadText(std::string& text) {
  size_t length = 0;
  if (!ReadLength(length)) return false;
  if (Contiguous() >= length) {
    text.assign(cursor_, length);
    Advance(length);
  } else {
    text.resize(length);
    if (!ReadCopy(text.data(), length)) return false;
  }
  return IsUtf8(text);
}

bool ProtobufReader::ReadRange(WireRange& range) {
  size_t length = 0;
  if (!ReadLength(length)) return false;
  range = WireRange{};
  range.size = length;
  if (length == 0) return true;
  Contiguous();
  range.segment = segment_;
  range.offset = static_cast<size_t>(cursor_ - segments_[segment_].data());
  return Skip(length);
}

bool ProtobufReader::Skip(size_t size) {
  if (size > remaining_) return false;
  while (size > 0) {
    const size_t part = std::min(Contiguous(), size);
    Advance(part);
    size -= part;
  }
  return true;
}

bool ProtobufReader::CopyRepeated(const WireTag& tag, Element element, size_t size, std::byte*& to) {
  if (element == Element::kBytes || element == Element::kFixed) {
    size_t length = size;
    if (tag.type == WireType::kBytes && !ReadLength(length)) return false;
    if (element == Element::kBytes) {
      const auto prefix = static_cast<uint32_t>(length);
      std::memcpy(to, &prefix, sizeof(prefix));
      to += sizeof(prefix);
    }
    if (!ReadCopy(to, length)) return false;
    to += length;
    return true;
  }
  return ReadRepeated(tag, [&] {
    uint64_t number = 0;
    if (!ReadVarint(number)) return false;
    if (element == Element::kBool) number = number != 0;
    // The low bytes come first on all supported machines.
    std::memcpy(to, &number, size);
    to += size;
    return true;
  });
}

bool ProtobufReader::SkipField(const WireTag& tag) {
  // Open groups, innermost last. A loop instead of recursion, because the peer chooses the depth.
  boost::container::small_vector<uint32_t, 8> groups;
  WireTag next = tag;
  while (true) {
    uint64_t number = 0;
    size_t length = 0;
    switch (next.type) {
      case WireType::kVarint:
        if (!ReadVarint(number)) return false;
        break;
      case WireType::kFixed64:
        if (!Skip(8)) return false;
        break;
      case WireType::kFixed32:
        if (!Skip(4)) return false;
        break;
      case WireType::kBytes:
        if (!ReadLength(length) || !Skip(length)) return false;
        break;
      case WireType::kGroupStart:
        if (static_cast<int>(groups.size()) + depth_ >= kMaxDepth) return false;
        groups.push_back(next.field);
        break;
      case WireType::kGroupEnd:
        if (groups.empty() || groups.back() != next.field) return false;
        groups.pop_back();
        break;
    }
    if (groups.empty()) return true;
    if (!ReadTag(next)) return false;
  }
}

void CopyRange(WireSegments segments, const WireRange& range, std::byte* to) {
  size_t segment = range.segment;
  size_t offset = range.offset;
  size_t left = range.size;
  while (left > 0) {
    const std::string_view piece = segments[segment].substr(offset);
    const size_t part = std::min(piece.size(), left);
    std::memcpy(to, piece.data(), part);
    to += part;
    left -= part;
    ++segment;
    offset = 0;
  }
}

}  // namespace braid
