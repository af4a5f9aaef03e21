// ImageCodec: decodes images, in the server or in a native worker (backends/native).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/mutex.h"
#include "base/status.h"
#include "images/image_target.h"
#include "images/opencv/codec.h"

namespace braid {

// A decoded image, which is written when its destination is known.
class DecodedImage {
 public:
  virtual ~DecodedImage() = default;

  // The size of the written image, as ImageTarget::SizeFor() chose it.
  virtual ImageSize size() const = 0;
  // Writes width * height * channels bytes to `pixels`. Errors: kInternalError.
  virtual Status Write(uint8_t* pixels) const = 0;
};

// Thread-safe.
class ImageCodec {
 public:
  virtual ~ImageCodec() = default;

  // Decodes to one channel, or to three in the order blue, green, red. The first call takes some tenths of a
  // second. Errors: kImageParsingFailed with `name`; kInternalError if the decoder is not available.
  virtual Result<std::unique_ptr<DecodedImage>> Decode(std::string_view encoded, const ImageTarget& target,
                                                       const std::string& name) = 0;
};

// Decodes with OpenCV; its library is loaded for the first image.
class OpenCvCodec final : public ImageCodec {
 public:
  // The library's path is `library`. If empty, the library is in folder `lib` beside the program, or in
  // `../lib/braid`.
  explicit OpenCvCodec(std::string library) : path_(std::move(library)) {}

  Result<std::unique_ptr<DecodedImage>> Decode(std::string_view encoded, const ImageTarget& target,
                                               const std::string& name) override;

 private:
  Result<const BraidImageCodec*> Load() BRAID_EXCLUDES(mutex_);

  Mutex mutex_;
  std::string path_ BRAID_GUARDED_BY(mutex_);
  const BraidImageCodec* codec_ BRAID_GUARDED_BY(mutex_) = nullptr;  // the library is never unloaded
};

}  // namespace braid
