// BytesElements: the wire form of BYTES tensors. Each element, row-major, is a little-endian uint32 length
// and that many bytes.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/status.h"

namespace braid {

// Iterates over the elements.
//
//   BytesElements elements(data);
//   while (elements.Next()) use(elements.value());
//   if (elements.truncated()) ... the buffer ended inside an element
//
// Each length is read once, so one iteration stays within the buffer even if another process changes the
// bytes meanwhile. Two iterations may then see different elements. A caller that computes a size in one
// iteration and copies in another must first call OutOfReach() on the bytes.
class BytesElements {
 public:
  explicit BytesElements(std::string_view data) : rest_(data) {}

  // Moves to the next element. Returns false at the end, or if the buffer ends inside an element.
  bool Next() {
    if (rest_.empty()) return false;
    uint32_t length = 0;
    if (rest_.size() < sizeof(length)) {
      truncation_ = Truncation::kLength;
      return false;
    }
    std::memcpy(&length, rest_.data(), sizeof(length));
    // Keeps the compiler from reading the length again.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (rest_.size() - sizeof(length) < length) {
      truncation_ = Truncation::kData;
      expected_ = length;
      return false;
    }
    value_ = rest_.substr(sizeof(length), length);
    rest_.remove_prefix(sizeof(length) + length);
    return true;
  }
  std::string_view value() const { return value_; }

  enum class Truncation : unsigned char { kNone, kLength, kData };
  Truncation truncation() const { return truncation_; }
  bool truncated() const { return truncation_ != Truncation::kNone; }
  // After a truncation inside data: the announced length, and the bytes that follow it.
  uint32_t expected_length() const { return expected_; }
  size_t available() const { return rest_.size() < 4 ? 0 : rest_.size() - 4; }

 private:
  std::string_view rest_;
  std::string_view value_;
  uint32_t expected_ = 0;
  Truncation truncation_ = Truncation::kNone;
};

}  // namespace braid
