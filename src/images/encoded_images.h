// ImageDecoder: accepts encoded images (JPEG, PNG, BMP, WebP) in place of a tensor's numbers. The client
// sends BYTES of shape [N] for an input of rank 4, or of rank 5 if a pipeline demultiplexes its request.
// Images are decoded to the input's shape, layout (NHWC), channels (BGR or gray) and precision.
//
// OpenCV is loaded for the first image, so a server without image requests does not use its memory.
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

// Whether an input of the request contains encoded images. Ask only for servables of Dialect::kOvms, before
// CheckRequest(). Cheap.
bool HasEncodedImages(const ServableInfo& info, const InferenceRequest& request);

// Thread-safe. Outlives the requests that it was given.
class ImageDecoder {
 public:
  struct Options {
    // The limit for the pixels of all images in one request, before they are resized.
    int64_t most_pixels = int64_t{1} << 30;
    // How many requests DecodeThen() decodes at once.
    uint32_t most_threads = std::max(std::thread::hardware_concurrency(), 1U);
    // The codec; null: the library beside the program (see OpenCvCodec).
    std::shared_ptr<ImageCodec> codec;
  };
  explicit ImageDecoder(Options options);

  // Decodes all images in place; takes milliseconds for each. The memory comes from the request's servable,
  // if it has one. Errors: CANCELLED if the request is cancelled meanwhile, checked before each image. As
  // Fault: kImageParsingFailed, kInvalidNoOfChannels, kBinaryImagesResolutionMismatch, kUnsupportedLayout,
  // kBytesContentsEmpty, kInvalidBatchSize, kInvalidShape (also if all images together would take too much
  // memory), kInvalidNoOfShapeDimensions, kInvalidValueCount, kInvalidContentSize, kInvalidPrecision.
  Status Decode(const ServableInfo& info, InferenceRequest& request);

  // Decodes on one of the decoder's threads, which then calls `next`. The status is OK, an error of Decode(),
  // or UNAVAILABLE if too many requests wait; the latter is reported on the caller's thread. Never blocks.
  // REQUIRES: `request->servable` is set.
  void DecodeThen(std::unique_ptr<InferenceRequest> request,
                  std::function<void(std::unique_ptr<InferenceRequest>, Status)> next);

 private:
  const int64_t most_pixels_;
  const std::shared_ptr<ImageCodec> codec_;  // shared with the caller that made it
  ElasticThreads threads_;
};

}  // namespace braid
