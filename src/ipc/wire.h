// The low-level encoding of messages: little-endian numbers, and texts after their length. The reader checks
// every length and limits the number of elements in one message. After the first fault it yields zeros, and
// ok() stays false.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

namespace braid {

class WireWriter {
 public:
  // Appends to `out`, which outlives the writer.
  explicit WireWriter(std::vector<std::byte>& out) : out_(out) {}

  template <class T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void Put(T value) { Append(&value, sizeof(value)); }
  void PutBytes(std::span<const std::byte> bytes) {
    Put(static_cast<uint32_t>(bytes.size()));
    Append(bytes.data(), bytes.size());
  }
  void PutText(std::string_view text) {
    PutBytes({reinterpret_cast<const std::byte*>(text.data()), text.size()});
  }

 private:
  void Append(const void* bytes, size_t size) {
    const size_t at = out_.size();
    out_.resize(at + size);
    if (size != 0) std::memcpy(out_.data() + at, bytes, size);
  }

  std::vector<std::byte>& out_;
};

class WireReader {
 public:
  // Texts and bytes that are read point into `message`.
  explicit WireReader(std::span<const std::byte> message) : rest_(message) {}

  template <class T>
  requires(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) || std::is_enum_v<T> T Get() {
    T value{};
    if (rest_.size() < sizeof(T)) {
      Fail();
      return value;
    }
    std::memcpy(&value, rest_.data(), sizeof(T));
    rest_ = rest_.subspan(sizeof(T));
    return value;
  }
  std::span<const std::byte> GetBytes() {
    const auto length = Get<uint32_t>();
    if (rest_.size() < length) {
      Fail();
      return {};
    }
    auto bytes = rest_.first(length);
    rest_ = rest_.subspan(length);
    return bytes;
  }
  std::string_view GetText() {
    auto bytes = GetBytes();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  // Reads a count of elements of at least `least` bytes each, so that a wrong count cannot make the caller
  // allocate without limit. Decoded elements are larger than encoded ones, so the sum of all counts in a
  // message is limited too.
  uint32_t GetCount(size_t least) {
    const auto count = Get<uint32_t>();
    if (count > rest_.size() / least || count > counts_left_) {
      Fail();
      return 0;
    }
    counts_left_ -= count;
    return count;
  }
  void Fail() {
    ok_ = false;
    rest_ = {};
  }
  bool ok() const { return ok_; }
  bool at_end() const { return rest_.empty(); }

 private:
  static constexpr uint32_t kMostThings = 1 << 20;

  std::span<const std::byte> rest_;
  uint32_t counts_left_ = kMostThings;
  bool ok_ = true;
};

}  // namespace braid
