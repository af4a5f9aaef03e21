#include "images/image_size.h"

#include <cstdlib>

namespace braid {
namespace {

using std::string_view_literals::operator""sv;

// Reads numbers at any position; beyond the end they are zero.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  uint64_t size() const { return bytes_.size(); }
  uint32_t Byte(uint64_t at) const { return at < bytes_.size() ? static_cast<unsigned char>(bytes_[at]) : 0; }
  uint32_t Big16(uint64_t at) const { return Byte(at) << 8 | Byte(at + 1); }
  uint32_t Big32(uint64_t at) const { return Big16(at) << 16 | Big16(at + 2); }
  uint32_t Little16(uint64_t at) const { return Byte(at) | Byte(at + 1) << 8; }
  uint32_t Little24(uint64_t at) const { return Little16(at) | Byte(at + 2) << 16; }
  uint32_t Little32(uint64_t at) const { return Little16(at) | Little16(at + 2) << 16; }
  bool Has(uint64_t at, std::string_view text) const {
    return at <= bytes_.size() && bytes_.substr(at).starts_with(text);
  }

 private:
  const std::string_view bytes_;
};

// The size is in the frame header, after any number of other segments.
ImageSize JpegSize(const Reader& bytes) {
  for (uint64_t at = 2; at < bytes.size();) {
    if (bytes.Byte(at) != 0xff) {
      ++at;  // decoders also skip bytes that are not a marker
      continue;
    }
    const uint32_t marker = bytes.Byte(at + 1);
    if (marker == 0xff || marker == 0) {
      ++at;  // fill byte
      continue;
    }
    at += 2;
    const bool alone = marker == 0x01 || (marker >= 0xd0 && marker <= 0xd8);
    if (alone) continue;
    const bool frame = marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
    if (frame) return {bytes.Big16(at + 5), bytes.Big16(at + 3)};
    if (marker == 0xd9 || marker == 0xda) break;  // the end, or pixels without a frame
    if (bytes.Big16(at) < 2) break;
    at += bytes.Big16(at);
  }
  return {};
}

ImageSize BmpSize(const Reader& bytes) {
  const uint32_t header = bytes.Little32(14);
  if (header == 12) return {bytes.Little16(18), bytes.Little16(20)};
  // The height is negative if the rows go from top to bottom.
  return {static_cast<int32_t>(bytes.Little32(18)),
          std::abs(int64_t{static_cast<int32_t>(bytes.Little32(22))})};
}

ImageSize WebpSize(const Reader& bytes) {
  if (bytes.Has(12, "VP8 ")) return {bytes.Little16(26) & 0x3fff, bytes.Little16(28) & 0x3fff};
  if (bytes.Has(12, "VP8L") && bytes.size() >= 25) {
    const uint32_t bits = bytes.Little32(21);
    return {int64_t{bits & 0x3fff} + 1, int64_t{bits >> 14 & 0x3fff} + 1};
  }
  if (bytes.Has(12, "VP8X") && bytes.size() >= 30)
    return {int64_t{bytes.Little24(24)} + 1, int64_t{bytes.Little24(27)} + 1};
  return {};
}

}  // namespace

std::optional<ImageSize> ReadImageSize(std::string_view encoded) {
  const Reader bytes(encoded);
  ImageSize size;
  if (bytes.Has(0, "\xff\xd8\xff"sv)) {
    size = JpegSize(bytes);
  } else if (bytes.Has(0, "\x89PNG\r\n\x1a\n"sv) && bytes.Has(12, "IHDR")) {
    size = {bytes.Big32(16), bytes.Big32(20)};
  } else if (bytes.Has(0, "BM")) {
    size = BmpSize(bytes);
  } else if (bytes.Has(0, "RIFF") && bytes.Has(8, "WEBP")) {
    size = WebpSize(bytes);
  }
  if (size.width <= 0 || size.height <= 0) return std::nullopt;
  return size;
}

}  // namespace braid
