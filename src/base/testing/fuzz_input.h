// FuzzInput: the input of a fuzzer. Numbers are taken from its end, so that the bytes before them begin like
// a seed of the corpus.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace braid {

class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  // Takes the last two bytes, little-endian, as a number from `least` to `most`. Returns `least` if there are
  // none.
  size_t Number(size_t least, size_t most) {
    if (rest_.size() < 2) return least;
    const auto byte = [](char value) { return size_t{static_cast<unsigned char>(value)}; };
    const size_t number = byte(rest_[rest_.size() - 2]) | byte(rest_.back()) << 8;
    rest_.remove_suffix(2);
    return least + number % (most - least + 1);
  }
  bool Flag() {
    if (rest_.empty()) return false;
    const bool flag = (rest_.back() & 1) != 0;
    rest_.remove_suffix(1);
    return flag;
  }
  std::string_view rest() const { return rest_; }
  // Returns the rest in pieces of `size` bytes, each in its own allocation.
  std::vector<std::string> Pieces(size_t size) const {
    std::vector<std::string> pieces;
    for (size_t at = 0; at < rest_.size(); at += size) pieces.emplace_back(rest_.substr(at, size));
    return pieces;
  }

 private:
  std::string_view rest_;
};

}  // namespace braid
