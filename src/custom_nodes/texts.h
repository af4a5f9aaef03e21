// The outputs of the nodes that cut texts out of a picture.
#pragma once

#include <algorithm>
#include <vector>

#include "custom_nodes/images.h"

namespace braid::custom_nodes {

struct Text {
  Box box;
  float score = 0;
  cv::Mat part;  // of the picture
};

inline std::vector<TensorInfo> TextInfos(const CropParams& params) {
  return {params.Pieces("text_images"),
          {"text_coordinates", I32, {0, 1, 4}},
          {"confidence_levels", FP32, {0, 1, 1}}};
}

inline void WriteTexts(const CropParams& params, const std::vector<Text>& texts, Outputs& outputs) {
  const uint64_t count = texts.size();
  float* const pieces = outputs.AddFloats(0, params.target.Dims({count, 1}));
  int32_t* const coordinates = outputs.AddInts(1, {count, 1, 4});
  float* const scores = outputs.AddFloats(2, {count, 1, 1});
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto [x, y, width, height] = texts[i].box;
    params.WritePiece(texts[i].part, i, pieces);
    std::ranges::transform(std::vector{x, y, width, height}, coordinates + 4 * i,
                           [](int64_t pixel) { return static_cast<int32_t>(pixel); });
    scores[i] = texts[i].score;
  }
}

}  // namespace braid::custom_nodes
