// Cuts the texts that the EAST detector has found out of the picture, and turns them upright.
//
// Inputs: image, FP32 [1, 3, H, W] or [1, H, W, 3]; scores, FP32 [1, H/4, W/4, 1].
// Also geometry, FP32 [1, H/4, W/4, 5]: distances to the top, right, bottom and left edge, angle in radians.
// Outputs: those of TextInfos().
#include <cmath>
#include <limits>
#include <numbers>
#include <opencv2/imgproc.hpp>

#include "custom_nodes/nodes/interface.h"
#include "custom_nodes/texts.h"

namespace braid::custom_nodes {
namespace {

constexpr int kCell = 4;  // pixels
constexpr uint64_t kGeometry = 5;
constexpr float kMost = std::numeric_limits<float>::max();

struct Settings : CropParams {
  explicit Settings(Params& params)
      : CropParams(params, kCell),
        overlap(params.Float("overlap_threshold", 0, 1, 0.3F)),
        wider(params.Float("box_width_adjustment", 0, kMost, 0)),
        higher(params.Float("box_height_adjustment", 0, kMost, 0)),
        rotation_degrees(params.Int("rotation_angle_threshold", 0, 20)) {}

  TensorInfo Cells(const char* name, uint64_t values) const {
    return {name,
            FP32,
            {1, static_cast<uint64_t>(original.height / kCell), static_cast<uint64_t>(original.width / kCell),
             values}};
  }

  float overlap;
  float wider;
  float higher;
  int rotation_degrees;
};

// One side of a box, along x or y, in pixels.
struct Side {
  int64_t begin;
  int64_t end;
};

// Makes a side longer at both ends, and cuts it off at the picture's edges. The second end grows by a part of
// the longer side, as in OpenVINO Model Server.
std::optional<Side> Adjust(Side side, float part, int64_t picture) {
  const auto grown = [part](int64_t from, int64_t to) { return static_cast<float>(to - from) * part; };
  const auto begin = ToPixel(static_cast<float>(side.begin) - grown(side.begin, side.end));
  if (!begin) return std::nullopt;
  side.begin = std::max<int64_t>(*begin, 0);
  const auto end = ToPixel(static_cast<float>(side.end) + grown(side.begin, side.end));
  if (!end) return std::nullopt;
  side.end = std::min(*end, picture);
  return side;
}

// A text that was found.
struct Found {
  uint64_t cell = 0;
  Box box;
  float angle = 0;   // in radians
  float height = 0;  // of the text, which its box exceeds if it is rotated
};

// Returns nothing if the text has no pixel in the picture, or if a number is not finite.
std::optional<Found> Decode(uint64_t cell, const float* geometry, const Settings& settings) {
  const auto columns = static_cast<uint64_t>(settings.original.width / kCell);
  const float right = geometry[1];
  const float bottom = geometry[2];
  const float angle = geometry[4];
  const float height = geometry[0] + geometry[2];
  const float width = geometry[1] + geometry[3];
  const float cosine = std::cos(angle);
  const float sine = std::sin(angle);
  const float offsets[] = {cosine * right + sine * bottom,
                           -sine * right + cosine * bottom,
                           -sine * height,
                           -cosine * height,
                           -cosine * width,
                           sine * width};
  int64_t pixels[std::size(offsets)];
  for (size_t i = 0; i < std::size(offsets); ++i) {
    const auto pixel = ToPixel(offsets[i]);
    if (!pixel) return std::nullopt;
    pixels[i] = *pixel;
  }
  struct Point {
    int64_t x;
    int64_t y;
  };
  const Point bottom_right{kCell * static_cast<int64_t>(cell % columns) + pixels[0],
                           kCell * static_cast<int64_t>(cell / columns) + pixels[1]};
  const Point top_right{bottom_right.x + pixels[2], bottom_right.y + pixels[3]};
  const Point bottom_left{bottom_right.x + pixels[4], bottom_right.y + pixels[5]};
  const Point top_left{bottom_left.x + top_right.x - bottom_right.x,
                       bottom_left.y + top_right.y - bottom_right.y};
  const auto [left, last] = std::minmax({bottom_right.x, top_right.x, bottom_left.x, top_left.x});
  const auto [top, lowest] = std::minmax({bottom_right.y, top_right.y, bottom_left.y, top_left.y});
  const auto across = Adjust({left, last}, settings.wider, settings.original.width);
  const auto down = Adjust({top, lowest}, settings.higher, settings.original.height);
  if (!across || !down) return std::nullopt;
  const Box box{across->begin, down->begin, across->end - across->begin, down->end - down->begin};
  if (box.empty()) return std::nullopt;
  return Found{cell, box, angle, height * (1 + settings.higher)};
}

// Returns the upright text of a part of the picture; empty if it has no row.
cv::Mat Upright(const cv::Mat& part, const Found& found, const Settings& settings) {
  const float degrees = found.angle * 180 / std::numbers::pi_v<float>;
  if (!(std::abs(degrees) > static_cast<float>(settings.rotation_degrees))) return part;
  const cv::Point center(part.cols / 2, part.rows / 2);
  cv::Mat rotated;
  cv::warpAffine(part, rotated, cv::getRotationMatrix2D(center, -degrees, 1), part.size(), cv::INTER_LINEAR,
                 cv::BORDER_CONSTANT);
  // A box that was cut off may be lower than its text.
  const auto most = static_cast<float>(part.rows);
  const float height = std::clamp(found.height, 0.0F, most);
  const int first = static_cast<int>((most - height) / 2);
  return rotated.rowRange(first, first + static_cast<int>(height));
}

class EastOcr final : public Node {
 public:
  explicit EastOcr(const Settings& settings)
      : Node({settings.Image(), settings.Cells("scores", 1), settings.Cells("geometry", kGeometry)},
             TextInfos(settings), settings.debug),
        settings_(settings) {}

  void Execute(const std::vector<const CustomNodeTensor*>& inputs, Outputs& outputs) const override {
    const cv::Mat picture = ReadPicture(*inputs[0], settings_.original.planes);
    const auto* scores = reinterpret_cast<const float*>(inputs[1]->data);
    const auto* geometry = reinterpret_cast<const float*>(inputs[2]->data);
    const uint64_t cells = inputs[1]->dims[1] * inputs[1]->dims[2];
    std::vector<Found> found;
    std::vector<Box> boxes;
    std::vector<float> levels;
    for (uint64_t cell = 0; cell < cells; ++cell) {
      if (!(scores[cell] >= settings_.confidence_threshold)) continue;
      const auto text = Decode(cell, geometry + kGeometry * cell, settings_);
      if (!text && settings_.Skips("geometry", cell, "has no pixel in the picture")) continue;
      found.push_back(*text);
      boxes.push_back(text->box);
      levels.push_back(scores[cell]);
    }
    std::vector<Text> texts;
    for (const size_t index :
         SuppressOverlaps(boxes, levels, settings_.overlap, settings_.max_output_batch)) {
      const cv::Mat part = Upright(picture(RectOf(boxes[index])), found[index], settings_);
      if (part.empty() && settings_.Skips("geometry", found[index].cell, "has no row of text")) continue;
      texts.push_back({boxes[index], levels[index], part});
    }
    WriteTexts(settings_, texts, outputs);
  }

 private:
  const Settings settings_;
};

}  // namespace

const char* const kNodeName = "east_ocr";
std::unique_ptr<Node> MakeNode(Params& params) { return std::make_unique<EastOcr>(Settings(params)); }

}  // namespace braid::custom_nodes
