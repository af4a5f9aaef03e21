#include "pipeline/dimensions.h"

#include <algorithm>

namespace braid {

bool Contains(const DimensionRange& range, int64_t size) {
  return size >= range.min && (range.max < 0 || size <= range.max);
}

Dimensions DimensionsOf(const TensorSpec& spec) {
  Dimensions dimensions;
  dimensions.reserve(spec.shape.size());
  for (size_t i = 0; i < spec.shape.size(); ++i) {
    if (spec.shape[i] >= 0) {
      dimensions.push_back(SizeOf(spec.shape[i]));
    } else {
      dimensions.push_back(i < spec.ranges.size() ? spec.ranges[i] : kAnySize);
    }
  }
  return dimensions;
}

void SetDimensions(const Dimensions& dimensions, TensorSpec& spec) {
  spec.shape.clear();
  bool ranges = false;
  for (const DimensionRange& range : dimensions) {
    const bool fixed = range.min == range.max;
    spec.shape.push_back(fixed ? range.min : -1);
    ranges = ranges || (!fixed && range != kAnySize);
  }
  spec.ranges = ranges ? dimensions : Dimensions();
}

std::optional<Dimensions> Intersect(const Dimensions& a, const Dimensions& b) {
  if (a.size() != b.size()) return std::nullopt;
  Dimensions both;
  both.reserve(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    DimensionRange range{std::max(a[i].min, b[i].min), a[i].max};
    if (range.max < 0 || (b[i].max >= 0 && b[i].max < range.max)) range.max = b[i].max;
    if (range.max >= 0 && range.min > range.max) return std::nullopt;
    both.push_back(range);
  }
  return both;
}

std::string ToString(const Dimensions& dimensions) {
  std::string text = "(";
  for (const DimensionRange& range : dimensions) {
    if (text.size() > 1) text += ',';
    if (range.min == range.max) {
      text += std::to_string(range.min);
    } else if (range.max < 0) {
      text += range.min > 0 ? std::to_string(range.min) + ":" : "-1";
    } else {
      text += std::to_string(range.min) + ":" + std::to_string(range.max);
    }
  }
  return text + ")";
}

}  // namespace braid
