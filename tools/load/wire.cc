#include "load/wire.h"

#include <algorithm>

namespace braid::load {

void WireWriter::RawVarint(uint64_t value) {
  while (value >= 128) {
    message_ += static_cast<char>((value & 127) | 128);
    value >>= 7;
  }
  message_ += static_cast<char>(value);
}

void WireWriter::Varint(uint32_t field, uint64_t value) {
  RawVarint(uint64_t{field} << 3);
  RawVarint(value);
}

void WireWriter::Bytes(uint32_t field, std::string_view bytes) {
  RawVarint((uint64_t{field} << 3) | 2);
  RawVarint(bytes.size());
  message_ += bytes;
}

void WireWriter::Double(uint32_t field, double value) {
  RawVarint((uint64_t{field} << 3) | 1);
  message_.append(reinterpret_cast<const char*>(&value), sizeof value);
}

uint64_t WireReader::RawVarint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    while (piece_ < pieces_->size() && offset_ == (*pieces_)[piece_].size()) {
      ++piece_;
      offset_ = 0;
    }
    if (left_ == 0) break;
    const auto byte = static_cast<uint8_t>((*pieces_)[piece_][offset_++]);
    --left_;
    value |= static_cast<uint64_t>(byte & 127) << shift;
    if ((byte & 128) == 0) return value;
  }
  ok_ = false;
  return 0;
}

bool WireReader::Next() {
  if (pending_) Skip();
  pending_ = false;
  if (!ok_ || left_ == 0) return false;
  key_ = RawVarint();
  pending_ = ok_;
  return ok_;
}

size_t WireReader::TakeLength() {
  pending_ = false;
  const uint64_t length = RawVarint();
  if (length > left_) ok_ = false;
  return ok_ ? static_cast<size_t>(length) : 0;
}

void WireReader::Advance(size_t size, Pieces* out) {
  if (size > left_) {
    ok_ = false;
    return;
  }
  left_ -= size;
  while (size > 0) {
    const std::string_view piece = (*pieces_)[piece_];
    const size_t taken = std::min(size, piece.size() - offset_);
    if (out != nullptr && taken > 0) out->push_back(piece.substr(offset_, taken));
    offset_ += taken;
    size -= taken;
    if (offset_ == piece.size()) {
      ++piece_;
      offset_ = 0;
    }
  }
}

Pieces WireReader::TakeBytes() {
  Pieces out;
  Advance(TakeLength(), &out);
  return out;
}

WireReader WireReader::TakeMessage() {
  const size_t length = TakeLength();
  WireReader inner = *this;
  inner.left_ = length;
  Advance(length, nullptr);
  return inner;
}

void WireReader::Skip() {
  switch (key_ & 7) {
    case 0:
      RawVarint();
      break;
    case 1:
      Advance(8, nullptr);
      break;
    case 2:
      Advance(TakeLength(), nullptr);
      break;
    case 5:
      Advance(4, nullptr);
      break;
    default:
      ok_ = false;
  }
}

void WireReader::TakeVarints(std::vector<int64_t>& numbers) {
  if ((key_ & 7) == 0) {
    numbers.push_back(static_cast<int64_t>(TakeVarint()));
    return;
  }
  WireReader packed = TakeMessage();
  while (packed.ok_ && packed.left_ > 0) numbers.push_back(static_cast<int64_t>(packed.RawVarint()));
  if (!packed.ok_) ok_ = false;
}

}  // namespace braid::load
