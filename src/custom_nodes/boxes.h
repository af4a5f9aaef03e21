// Rectangles of pictures, as the built-in nodes cut and compare them. Values come from models, so they may be
// anything.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace braid::custom_nodes {

// In pixels; empty unless both sizes are above 0.
struct Box {
  int64_t x = 0;
  int64_t y = 0;
  int64_t width = 0;
  int64_t height = 0;
  bool empty() const { return width <= 0 || height <= 0; }
  bool operator==(const Box&) const = default;
};

// Truncates toward zero; values beyond any picture become +-2^40. Returns nothing for NaN.
std::optional<int64_t> ToPixel(float value);

// Moves a box that begins left of the picture or above it to the edge, with its size, and then cuts it off at
// the other edges. The result may be empty.
Box GuardedCrop(Box box, int64_t picture_width, int64_t picture_height);
// Returns the part of a box inside the picture.
Box Inside(const Box& box, int64_t picture_width, int64_t picture_height);

// One row of a detector: [image_id, label, confidence, x_min, y_min, x_max, y_max].
struct Detection {
  int32_t label = 0;
  float confidence = 0;
  std::span<const float> corners;  // four, relative to the picture
  std::optional<Box> box;          // nothing if a corner is not a number
};
// Returns nothing for a row of another picture, or of too low a confidence.
std::optional<Detection> ReadDetection(const float* row, float confidence_threshold, int64_t picture_width,
                                       int64_t picture_height);
inline constexpr uint64_t kDetectionSize = 7;

// Returns the indexes of the boxes that stay, by falling score: a box goes if the intersection with one before
// it is larger than `overlap` times their union. Of equal scores the later box is first. Returns at most `most`
// of them.
std::vector<size_t> SuppressOverlaps(std::span<const Box> boxes, std::span<const float> scores, float overlap,
                                     size_t most);

}  // namespace braid::custom_nodes
