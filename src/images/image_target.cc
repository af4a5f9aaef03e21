#include "images/image_target.h"

#include <algorithm>
#include <cctype>
#include <limits>

#include "serving/faults.h"

namespace braid {
namespace {

constexpr int64_t kGray = 1;
constexpr int64_t kColour = 3;

DimensionRange RangeOf(const TensorSpec& input, size_t dimension) {
  if (input.shape[dimension] >= 0) return {input.shape[dimension], input.shape[dimension]};
  return dimension < input.ranges.size() ? input.ranges[dimension] : DimensionRange{};
}

bool Contains(const DimensionRange& range, int64_t size) {
  return size >= range.min && (range.max < 0 || size <= range.max);
}

int64_t Nearest(const DimensionRange& range, int64_t size) {
  return std::clamp(size, range.min, range.max < 0 ? std::numeric_limits<int64_t>::max() : range.max);
}

// Whether a layout says that the last dimensions are height, width and channels.
enum class LayoutSays : unsigned char { kYes, kNothing, kNo };

// A layout has letters, '?' for any dimension and "..." for any number of them; "[N,H,W,C]" is also possible.
LayoutSays Read(const std::string& layout, size_t rank) {
  std::string letters;
  for (char letter : layout) {
    if (letter == '[' || letter == ']' || letter == ',' || letter == ' ') continue;
    letters += static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  }
  if (letters.empty()) return LayoutSays::kNothing;
  const size_t dots = letters.find("...");
  if (dots != std::string::npos) {
    const size_t known = letters.size() - 3;
    if (known > rank) return LayoutSays::kNo;
    letters.replace(dots, 3, rank - known, '?');
  }
  // The layout describes the model's input; a pipeline adds a dimension in front.
  if (rank == 5 && letters.size() == 4) letters.insert(0, 1, '?');
  if (letters.size() != rank) return LayoutSays::kNo;
  const std::string wanted = rank == 5 ? "??HWC" : "NHWC";
  bool all = true;
  for (size_t i = 0; i < rank; ++i) {
    if (wanted[i] == '?') continue;
    if (letters[i] != '?' && letters[i] != wanted[i]) return LayoutSays::kNo;
    if (i + 3 >= rank && letters[i] == '?') all = false;
  }
  return all ? LayoutSays::kYes : LayoutSays::kNothing;
}

}  // namespace

ImageSize ImageTarget::SizeFor(ImageSize image) const {
  return {Nearest(width, image.width), Nearest(height, image.height)};
}

Shape ImageTarget::ShapeOf(int64_t count, ImageSize size) const {
  if (nested) return {count, 1, size.height, size.width, channels()};
  return {count, size.height, size.width, channels()};
}

Result<ImageTarget> ImageTargetOf(const TensorSpec& input) {
  const size_t rank = input.shape.size();
  BRAID_CHECK(rank == 4 || rank == 5);
  const LayoutSays layout = Read(input.layout, rank);
  if (layout == LayoutSays::kNo) {
    return FaultError(Fault::kUnsupportedLayout, "layout: " + input.layout + "; input name: " + input.name);
  }
  const DimensionRange channels = RangeOf(input, rank - 1);
  const bool colour = Contains(channels, kColour);
  if (!colour && !Contains(channels, kGray)) {
    const int64_t first = input.shape[rank - 3];
    if (layout == LayoutSays::kNothing && (first == kColour || first == kGray)) {
      return FaultError(Fault::kUnsupportedLayout,
                        "shape: " + ShapeToString(input.shape) + "; input name: " + input.name);
    }
    return FaultError(Fault::kInvalidNoOfChannels, "Expected: " + std::to_string(input.shape[rank - 1]) +
                                                       "; Actual: 3; input name: " + input.name);
  }
  ImageTarget target;
  target.batch = RangeOf(input, 0);
  target.height = RangeOf(input, rank - 3);
  target.width = RangeOf(input, rank - 2);
  target.gray = !colour;
  target.nested = rank == 5;
  return target;
}

}  // namespace braid
