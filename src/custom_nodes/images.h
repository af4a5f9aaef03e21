// Pictures of the built-in nodes: FP32 tensors of one picture, in OpenCV's matrices.
#pragma once

#include <cstdint>
#include <opencv2/core.hpp>
#include <optional>
#include <string>
#include <vector>

#include "custom_nodes/boxes.h"
#include "custom_nodes/node.h"
#include "custom_nodes/params.h"

namespace braid::custom_nodes {

// The dimensions of a picture, or of any part of it as 0.
struct PictureShape {
  int width = 0;
  int height = 0;
  int channels = 3;
  bool planes = false;  // NCHW, else NHWC

  // The last three dimensions.
  std::vector<uint64_t> Dims(std::vector<uint64_t> before) const;
};

// Whether the param is NCHW.
bool PlanesOf(Params& params, const std::string& key, const char* otherwise);

// Returns the picture in a tensor of Dims({1}), as a view where the tensor has that order. Do not write to it.
cv::Mat ReadPicture(const CustomNodeTensor& tensor, bool planes);
// Writes a picture in the order of a tensor. `to` has room for it.
void WritePicture(const cv::Mat& picture, bool planes, float* to);
// Resizes to a size that may be the picture's own.
cv::Mat Resize(const cv::Mat& picture, int width, int height);
// Throws if a picture of this size would be larger than 2 GiB.
void CheckPictureSize(int64_t width, int64_t height, int64_t channels);

inline cv::Rect RectOf(const Box& box) {
  return {static_cast<int>(box.x), static_cast<int>(box.y), static_cast<int>(box.width),
          static_cast<int>(box.height)};
}

// The params that all nodes have which work on boxes in a picture.
struct BoxParams {
  // The sizes of the original are multiples of `step`.
  BoxParams(Params& params, bool may_be_gray, int step = 1);

  TensorInfo Image() const { return {"image", FP32, original.Dims({1})}; }

  PictureShape original;
  PictureShape target;
  float confidence_threshold;
  bool debug;
};

// The params of those that cut the boxes out: pieces of the target's size, one for each box.
struct CropParams : BoxParams {
  explicit CropParams(Params& params, int step = 1);

  TensorInfo Pieces(const char* name) const { return {name, FP32, target.Dims({0, 1})}; }
  // Returns whether the box of input `input` is skipped. Throws if it is not.
  bool Skips(const char* input, size_t row, const char* fault) const;
  // Resizes a part of the picture and writes it as piece `index`.
  void WritePiece(const cv::Mat& part, size_t index, float* pieces) const;

  size_t max_output_batch;
  bool skip_empty_boxes;
};

}  // namespace braid::custom_nodes
