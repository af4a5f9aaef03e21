// Encoded images (JPEG, PNG, BMP, WebP) in place of a tensor's numbers: BYTES of shape [N] for an input of
// rank 4, or of rank 5 where a pipeline demultiplexes its request. They are decoded to the shape, the layout
// (NHWC), the number of channels (BGR, or gray) and the precision of the input.
//
// OpenCV is loaded with the first image: a server that gets none does not carry it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/elastic_threads.h"
#include "base/status.h"
#include "images/image_codec.h"
#include "serving/request.h"
#include "serving/servable.h"

namespace braid {

// Whether an input of the request is of encoded images: to be asked of servables of Dialect::kOvms, before
// CheckRequest(). Cheap.
bool HasEncodedImages(const ServableInfo& info, const InferenceRequest& request);

// Any thread. Outlives what it was given.
class ImageDecoder {
 public:
  struct Options {
    // How many pixels the images of one request may have together, before they are resized.
    int64_t most_pixels = int64_t{1} << 30;
    // How many requests are decoded at once by DecodeThen().
    uint32_t most_threads = std::max(std::thread::hardware_concurrency(), 1U);
    // What decodes; null: the library beside the program (see OpenCvCodec).
    std::shared_ptr<ImageCodec> codec;
  };
  explicit ImageDecoder(Options options);

  // Decodes all of them in place; takes milliseconds for each. The memory comes from the request's servable,
  // if it has one. Errors: CANCELLED when the request is cancelled meanwhile, which is looked at before each
  // image; as Fault: kImageParsingFailed, kInvalidNoOfChannels, kBinaryImagesResolutionMismatch,
  // kUnsupportedLayout, kBytesContentsEmpty, kInvalidBatchSize, kInvalidShape (also of images that would take
  // too much memory together), kInvalidNoOfShapeDimensions, kInvalidValueCount, kInvalidContentSize,
  // kInvalidPrecision.
  Status Decode(const ServableInfo& info, InferenceRequest& request);

  // The same on the decoder's threads; `next` goes on with the request there. Its
  // status is OK, one of these errors, or UNAVAILABLE when too many wait, which is told on the caller's
  // thread. Never blocks. REQUIRES: `request->servable` is set.
  void DecodeThen(std::unique_ptr<InferenceRequest> request,
                  std::function<void(std::unique_ptr<InferenceRequest>, Status)> next);

 private:
  const int64_t most_pixels_;
  const std::shared_ptr<ImageCodec> codec_;  // shared with whoever made it
  ElasticThreads threads_;
};

}  // namespace braid
