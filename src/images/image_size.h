// The size of an encoded image as its header tells it, read before anything is decoded: a few bytes can say
// that they are a picture of gigabytes.
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

// Of a JPEG, PNG, BMP or WebP, which are the formats that are decoded; nothing for other formats, and for
// headers that are broken or tell a size of 0. Trusts no byte.
std::optional<ImageSize> ReadImageSize(std::string_view encoded);

}  // namespace braid
