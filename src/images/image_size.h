// The size of an encoded image, read from its header before it is decoded: a few bytes can claim to be a
// picture of gigabytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace braid {

struct ImageSize {
  int64_t width = 0;
  int64_t height = 0;
  bool operator==(const ImageSize&) const = default;
};

// Returns the size of a JPEG, PNG, BMP or WebP, the formats that can be decoded. Returns nullopt for other
// formats, for broken headers, and for a size of 0. Every byte is treated as untrusted.
std::optional<ImageSize> ReadImageSize(std::string_view encoded);

}  // namespace braid
