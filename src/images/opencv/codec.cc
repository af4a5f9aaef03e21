#include "images/opencv/codec.h"

#include <climits>
#include <exception>
#include <memory>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>

namespace {

// OpenCV throws exceptions; none may leave this file.
void* Decode(const uint8_t* bytes, size_t size, int gray, int64_t* width, int64_t* height) try {
  if (size == 0 || size > INT_MAX) return nullptr;
  const cv::Mat encoded(1, static_cast<int>(size), CV_8UC1, const_cast<uint8_t*>(bytes));
  auto image =
      std::make_unique<cv::Mat>(cv::imdecode(encoded, gray ? cv::IMREAD_GRAYSCALE : cv::IMREAD_COLOR));
  if (image->empty() || image->depth() != CV_8U || image->channels() != (gray ? 1 : 3)) return nullptr;
  *width = image->cols;
  *height = image->rows;
  return image.release();
} catch (const std::exception&) {
  return nullptr;
}

int Write(const void* image, int64_t width, int64_t height, uint8_t* pixels) try {
  const cv::Mat& from = *static_cast<const cv::Mat*>(image);
  if (width <= 0 || width > INT_MAX || height <= 0 || height > INT_MAX) return 1;
  // A matrix on the caller's memory. OpenCV writes into it because its size and type already match.
  cv::Mat to(static_cast<int>(height), static_cast<int>(width), from.type(), pixels);
  if (from.size() == to.size()) {
    from.copyTo(to);
  } else {
    cv::resize(from, to, to.size(), 0, 0, cv::INTER_LINEAR);
  }
  return to.data == pixels ? 0 : 1;
} catch (const std::exception&) {
  return 1;
}

void End(void* image) { delete static_cast<cv::Mat*>(image); }

const BraidImageCodec kCodec = {Decode, Write, End};

}  // namespace

extern "C" __attribute__((visibility("default"))) const BraidImageCodec* braid_image_codec() {
  return &kCodec;
}
