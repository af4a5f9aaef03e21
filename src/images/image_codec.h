// The library that decodes images, loaded when it is first asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/mutex.h"
#include "base/status.h"
#include "images/opencv/codec.h"

namespace braid {

// A decoded image.
class DecodedImage {
 public:
  int64_t width() const { return width_; }
  int64_t height() const { return height_; }
  // Writes width * height * channels bytes to `pixels`, resized when that is another size. Errors:
  // kInternalError.
  Status Write(int64_t width, int64_t height, uint8_t* pixels) const;

 private:
  friend class ImageCodec;
  DecodedImage(const BraidImageCodec& codec, void* image) : image_(image, codec.end), codec_(&codec) {}

  std::unique_ptr<void, void (*)(void*)> image_;
  const BraidImageCodec* codec_;
  int64_t width_ = 0;
  int64_t height_ = 0;
};

// Any thread.
class ImageCodec {
 public:
  // `library` is the path of the library; empty: it is in folder `lib` beside the program, or in
  // `../lib/braid`.
  explicit ImageCodec(std::string library) : path_(std::move(library)) {}

  // To one channel, or to three in the order blue, green, red. The first call takes some tenths of a second.
  // Errors: kImageParsingFailed with `name`, kInternalError when the library cannot be loaded.
  Result<DecodedImage> Decode(std::string_view encoded, bool gray, const std::string& name);

 private:
  Result<const BraidImageCodec*> Load() BRAID_EXCLUDES(mutex_);

  Mutex mutex_;
  std::string path_ BRAID_GUARDED_BY(mutex_);
  const BraidImageCodec* codec_ BRAID_GUARDED_BY(mutex_) = nullptr;  // the library is never unloaded
};

}  // namespace braid
