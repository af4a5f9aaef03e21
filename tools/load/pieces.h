// Pieces: the bytes of one message, in the pieces that arrived.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace braid::load {

// Consecutive pieces of one byte string: views into the buffers of the message, which outlive them.
using Pieces = std::vector<std::string_view>;

inline size_t PiecesSize(const Pieces& pieces) {
  size_t size = 0;
  for (const std::string_view piece : pieces) size += piece.size();
  return size;
}

inline std::string JoinPieces(const Pieces& pieces) {
  std::string joined;
  joined.reserve(PiecesSize(pieces));
  for (const std::string_view piece : pieces) joined += piece;
  return joined;
}

}  // namespace braid::load
