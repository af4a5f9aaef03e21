#include "custom_nodes/boxes.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

namespace braid::custom_nodes {
namespace {

float OverlapOf(const Box& a, const Box& b) {
  const int64_t width = std::min(a.x + a.width, b.x + b.width) - std::max(a.x, b.x);
  const int64_t height = std::min(a.y + a.height, b.y + b.height) - std::max(a.y, b.y);
  if (width <= 0 || height <= 0) return 0;
  const int64_t both = width * height;
  return static_cast<float>(both) / static_cast<float>(a.width * a.height + b.width * b.height - both);
}

}  // namespace

std::optional<int64_t> ToPixel(float value) {
  if (std::isnan(value)) return std::nullopt;
  constexpr float kMost = 1099511627776.0F;  // 2^40
  return static_cast<int64_t>(std::clamp(value, -kMost, kMost));
}

Box GuardedCrop(Box box, int64_t picture_width, int64_t picture_height) {
  box.x = std::max<int64_t>(box.x, 0);
  box.y = std::max<int64_t>(box.y, 0);
  box.width = std::min(box.width, picture_width - box.x);
  box.height = std::min(box.height, picture_height - box.y);
  return box;
}

Box Inside(const Box& box, int64_t picture_width, int64_t picture_height) {
  const int64_t left = std::max<int64_t>(box.x, 0);
  const int64_t top = std::max<int64_t>(box.y, 0);
  return {left, top, std::min(box.x + box.width, picture_width) - left,
          std::min(box.y + box.height, picture_height) - top};
}

std::optional<Detection> ReadDetection(const float* row, float confidence_threshold, int64_t picture_width,
                                       int64_t picture_height) {
  // NaN compares as false.
  if (ToPixel(row[0]) != 0 || !(row[2] >= confidence_threshold)) return std::nullopt;
  constexpr int64_t kLeast = std::numeric_limits<int32_t>::min();
  const int64_t label =
      std::clamp<int64_t>(ToPixel(row[1]).value_or(kLeast), kLeast, std::numeric_limits<int32_t>::max());
  Detection found{static_cast<int32_t>(label), row[2], std::span(row + 3, 4), std::nullopt};
  const auto left = ToPixel(row[3] * static_cast<float>(picture_width));
  const auto top = ToPixel(row[4] * static_cast<float>(picture_height));
  const auto right = ToPixel(row[5] * static_cast<float>(picture_width));
  const auto bottom = ToPixel(row[6] * static_cast<float>(picture_height));
  if (left && top && right && bottom) {
    found.box = {std::min(*left, *right), std::min(*top, *bottom), std::abs(*right - *left),
                 std::abs(*bottom - *top)};
  }
  return found;
}

std::vector<size_t> SuppressOverlaps(std::span<const Box> boxes, std::span<const float> scores, float overlap,
                                     size_t most) {
  std::vector<size_t> order(boxes.size());
  std::iota(order.rbegin(), order.rend(), size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](size_t index) { return scores[index]; });
  std::vector<size_t> kept;
  for (const size_t index : order) {
    if (kept.size() >= most) break;
    const bool covered = std::ranges::any_of(
        kept, [&](size_t other) { return OverlapOf(boxes[index], boxes[other]) > overlap; });
    if (!covered) kept.push_back(index);
  }
  return kept;
}

}  // namespace braid::custom_nodes
