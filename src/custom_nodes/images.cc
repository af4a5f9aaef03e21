#include "custom_nodes/images.h"

#include <array>
#include <climits>
#include <opencv2/imgproc.hpp>
#include <stdexcept>

namespace braid::custom_nodes {
namespace {

int SizeOf(Params& params, const std::string& key, int step) {
  const int size = params.Int(key, 1);
  if (size % step != 0) params.Refuse(key, "a multiple of " + std::to_string(step));
  return size;
}

}  // namespace

std::vector<uint64_t> PictureShape::Dims(std::vector<uint64_t> before) const {
  const auto w = static_cast<uint64_t>(width);
  const auto h = static_cast<uint64_t>(height);
  const auto c = static_cast<uint64_t>(channels);
  const std::array<uint64_t, 3> order = planes ? std::array{c, h, w} : std::array{h, w, c};
  before.insert(before.end(), order.begin(), order.end());
  return before;
}

bool PlanesOf(Params& params, const std::string& key, const char* otherwise) {
  return params.Choice(key, {"NCHW", "NHWC"}, otherwise) == "NCHW";
}

cv::Mat ReadPicture(const CustomNodeTensor& tensor, bool planes) {
  const uint64_t* dims = tensor.dims;
  const auto [height, width, channels] =
      planes ? std::tuple{dims[2], dims[3], dims[1]} : std::tuple{dims[1], dims[2], dims[3]};
  if (height == 0 || width == 0 || (channels != 1 && channels != 3) || height > INT_MAX || width > INT_MAX) {
    throw std::invalid_argument("input '" + std::string(tensor.name) + "' is no picture: " +
                                Describe(tensor.precision, {tensor.dims, tensor.dimsCount}));
  }
  CheckPictureSize(static_cast<int64_t>(width), static_cast<int64_t>(height), static_cast<int64_t>(channels));
  const int rows = static_cast<int>(height);
  const int columns = static_cast<int>(width);
  if (!planes || channels == 1) return {rows, columns, CV_32FC(static_cast<int>(channels)), tensor.data};
  auto* const plane = reinterpret_cast<float*>(tensor.data);
  const cv::Mat parts[] = {{rows, columns, CV_32FC1, plane},
                           {rows, columns, CV_32FC1, plane + width * height},
                           {rows, columns, CV_32FC1, plane + 2 * width * height}};
  cv::Mat picture;
  cv::merge(parts, std::size(parts), picture);
  return picture;
}

void WritePicture(const cv::Mat& picture, bool planes, float* to) {
  if (!planes || picture.channels() == 1) {
    cv::Mat whole(picture.rows, picture.cols, picture.type(), to);
    picture.copyTo(whole);
    return;
  }
  const size_t size = picture.total();
  cv::Mat parts[] = {{picture.rows, picture.cols, CV_32FC1, to},
                     {picture.rows, picture.cols, CV_32FC1, to + size},
                     {picture.rows, picture.cols, CV_32FC1, to + 2 * size}};
  cv::split(picture, parts);
}

cv::Mat Resize(const cv::Mat& picture, int width, int height) {
  if (picture.cols == width && picture.rows == height) return picture;
  cv::Mat resized;
  cv::resize(picture, resized, {width, height}, 0, 0, cv::INTER_LINEAR);
  return resized;
}

void CheckPictureSize(int64_t width, int64_t height, int64_t channels) {
  constexpr int64_t kMostNumbers = (int64_t{1} << 31) / static_cast<int64_t>(sizeof(float));
  if (width <= kMostNumbers / channels / height) return;
  throw std::invalid_argument("a picture of " + std::to_string(width) + "x" + std::to_string(height) + "x" +
                              std::to_string(channels) + " is larger than 2 GiB");
}

BoxParams::BoxParams(Params& params, bool may_be_gray, int step)
    : original{SizeOf(params, "original_image_width", step), SizeOf(params, "original_image_height", step), 3,
               PlanesOf(params, "original_image_layout", "NCHW")},
      target{SizeOf(params, "target_image_width", 1), SizeOf(params, "target_image_height", 1),
             may_be_gray && params.Flag("convert_to_gray_scale") ? 1 : 3,
             PlanesOf(params, "target_image_layout", "NCHW")},
      confidence_threshold(params.Float("confidence_threshold", 0, 1)),
      debug(params.Flag("debug")) {
  for (const PictureShape& shape : {original, target}) CheckPictureSize(shape.width, shape.height, 3);
}

CropParams::CropParams(Params& params, int step)
    : BoxParams(params, true, step),
      max_output_batch(static_cast<size_t>(params.Int("max_output_batch", 1, 100))),
      skip_empty_boxes(params.Flag("skip_empty_boxes")) {}

bool CropParams::Skips(const char* input, size_t row, const char* fault) const {
  if (skip_empty_boxes) return true;
  throw std::invalid_argument("input '" + std::string(input) + "': the box " + std::to_string(row) + " " +
                              fault + "; with the param skip_empty_boxes 'true' such boxes are left out");
}

void CropParams::WritePiece(const cv::Mat& part, size_t index, float* pieces) const {
  cv::Mat piece = Resize(part, target.width, target.height);
  if (target.channels == 1) {
    cv::Mat gray;
    cv::cvtColor(piece, gray, cv::COLOR_BGR2GRAY);
    piece = gray;
  }
  const auto size = piece.total() * static_cast<size_t>(piece.channels());
  WritePicture(piece, target.planes, pieces + index * size);
}

}  // namespace braid::custom_nodes
