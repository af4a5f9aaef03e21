// The library that decodes images, loaded when it is first asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "images/opencv/codec.h"

namespace braid {

// A decoded image.
class DecodedImage {
 public:
  // To one channel, or to three in the order blue, green, red. Any thread; the first call takes some tenths
  // of a second. Errors: kImageParsingFailed with `name`, kInternalError when the library cannot be loaded.
  static Result<DecodedImage> Decode(std::string_view encoded, bool gray, const std::string& name);

  int64_t width() const { return width_; }
  int64_t height() const { return height_; }
  // Writes width * height * channels bytes to `pixels`, resized when that is another size. Errors:
  // kInternalError.
  Status Write(int64_t width, int64_t height, uint8_t* pixels) const;

 private:
  DecodedImage(const BraidImageCodec& codec, void* image) : image_(image, codec.end), codec_(&codec) {}

  std::unique_ptr<void, void (*)(void*)> image_;
  const BraidImageCodec* codec_;
  int64_t width_ = 0;
  int64_t height_ = 0;
};

// Where the library is, for programs that are not the server: by default it is in folder `lib` beside the
// program, or in `../lib/braid`. REQUIRES: no image was decoded yet.
void SetImageLibrary(std::string path);

}  // namespace braid
