// ContentHash: a 128-bit hash (XXH3) of bytes that are added piece by piece. It detects accidental changes;
// it does not resist an attacker.
#pragma once

#include <xxhash.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

namespace braid {

class ContentHash {
 public:
  using Bytes = std::array<unsigned char, 16>;

  ContentHash() { XXH3_128bits_reset(state_.get()); }

  void Add(const void* data, size_t size) { XXH3_128bits_update(state_.get(), data, size); }
  // Adds the text's length too, so that two different lists of texts do not look alike.
  void AddText(std::string_view text) {
    const uint64_t size = text.size();
    Add(&size, sizeof(size));
    Add(text.data(), text.size());
  }

  // Returns the hash of all bytes added so far. It is the same on every machine.
  Bytes bytes() const {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_.get()));
    Bytes bytes;
    static_assert(sizeof(canonical) == sizeof(bytes));
    std::memcpy(bytes.data(), &canonical, sizeof(bytes));
    return bytes;
  }
  // The same as 32 hexadecimal digits.
  std::string text() const {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    for (const unsigned char byte : bytes()) {
      text += kDigits[byte >> 4];
      text += kDigits[byte & 15];
    }
    return text;
  }

 private:
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  // Only the library knows its size.
  const std::unique_ptr<XXH3_state_t, Free> state_{XXH3_createState()};
};

}  // namespace braid
