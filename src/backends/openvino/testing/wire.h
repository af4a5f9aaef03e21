// Writes protobuf messages by field numbers, for small test models of other frameworks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace braid::wire {

inline std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
inline std::string Number(int field, uint64_t value) {
  return Varint(static_cast<uint64_t>(field) << 3) + Varint(value);
}
inline std::string Bytes(int field, std::string_view value) {
  return Varint(static_cast<uint64_t>(field) << 3 | 2) + Varint(value.size()) + std::string(value);
}
// An entry of a map from text to messages.
inline std::string Entry(int field, std::string_view key, std::string_view value) {
  return Bytes(field, Bytes(1, key) + Bytes(2, value));
}

}  // namespace braid::wire
