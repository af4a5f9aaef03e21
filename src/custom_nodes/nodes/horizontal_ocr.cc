// Cuts the boxes of a detector of horizontal texts out of the picture.
//
// Inputs: image, FP32 [1, 3, H, W] or [1, H, W, 3]; boxes, FP32 [X, 5]: x1, y1, x2, y2, score, in pixels.
// Outputs: those of TextInfos().
#include "custom_nodes/nodes/interface.h"
#include "custom_nodes/texts.h"

namespace braid::custom_nodes {
namespace {

constexpr uint64_t kRow = 5;

std::optional<Box> BoxOf(const float* row) {
  // Also refuses NaN.
  if (!(row[2] > row[0] && row[3] > row[1])) return std::nullopt;
  const auto x = ToPixel(row[0]);
  const auto y = ToPixel(row[1]);
  const auto width = ToPixel(row[2] - row[0]);
  const auto height = ToPixel(row[3] - row[1]);
  if (!x || !y || !width || !height) return std::nullopt;
  return Box{*x, *y, *width, *height};
}

class HorizontalOcr final : public Node {
 public:
  explicit HorizontalOcr(const CropParams& params)
      : Node({params.Image(), {"boxes", FP32, {0, kRow}}}, TextInfos(params), params.debug),
        params_(params) {}

  void Execute(const std::vector<const CustomNodeTensor*>& inputs, Outputs& outputs) const override {
    const cv::Mat picture = ReadPicture(*inputs[0], params_.original.planes);
    const auto* row = reinterpret_cast<const float*>(inputs[1]->data);
    std::vector<Text> texts;
    for (uint64_t i = 0; i < inputs[1]->dims[0] && texts.size() < params_.max_output_batch;
         ++i, row += kRow) {
      if (!(row[4] >= params_.confidence_threshold)) continue;
      auto box = BoxOf(row);
      if (box) box = GuardedCrop(*box, picture.cols, picture.rows);
      if ((!box || box->empty()) && params_.Skips("boxes", i, "has no pixel in the picture")) continue;
      texts.push_back({*box, row[4], picture(RectOf(*box))});
    }
    WriteTexts(params_, texts, outputs);
  }

 private:
  const CropParams params_;
};

}  // namespace

const char* const kNodeName = "horizontal_ocr";
std::unique_ptr<Node> MakeNode(Params& params) { return std::make_unique<HorizontalOcr>(CropParams(params)); }

}  // namespace braid::custom_nodes
