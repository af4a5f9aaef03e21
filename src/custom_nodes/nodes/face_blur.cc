// Blurs the detections of a detector in the picture. Boxes are cut off at the picture's edges.
//
// Inputs: image, FP32 [1, 3, H, W] or [1, H, W, 3]; detection, FP32 [1, 1, 200, 7], see ReadDetection().
// Outputs: image, FP32 [1, 3, h, w] or [1, h, w, 3].
#include <opencv2/imgproc.hpp>

#include "custom_nodes/images.h"
#include "custom_nodes/nodes/interface.h"

namespace braid::custom_nodes {
namespace {

constexpr uint64_t kRows = 200;

struct Settings : BoxParams {
  explicit Settings(Params& params)
      : BoxParams(params, false), kernel(params.Int("gaussian_blur_kernel_size", 1)) {
    // The limit bounds the kernel's memory.
    if (kernel % 2 == 0 || kernel > INT16_MAX)
      params.Refuse("gaussian_blur_kernel_size", "an odd number from 1 to " + std::to_string(INT16_MAX));
  }

  int kernel;
};

class FaceBlur final : public Node {
 public:
  explicit FaceBlur(const Settings& settings)
      : Node({settings.Image(), {"detection", FP32, {1, 1, kRows, kDetectionSize}}},
             {{"image", FP32, settings.target.Dims({1})}}, settings.debug),
        settings_(settings) {}

  void Execute(const std::vector<const CustomNodeTensor*>& inputs, Outputs& outputs) const override {
    const auto [width, height, channels, planes] = settings_.original;
    // A copy, because other nodes may read the input.
    cv::Mat picture = ReadPicture(*inputs[0], planes).clone();
    const auto* row = reinterpret_cast<const float*>(inputs[1]->data);
    for (uint64_t i = 0; i < kRows; ++i, row += kDetectionSize) {
      const auto found = ReadDetection(row, settings_.confidence_threshold, width, height);
      if (!found) continue;
      // Leaving a face as it is would be worse than an error.
      if (!found->box)
        throw std::invalid_argument("input 'detection': the box " + std::to_string(i) + " has NaN");
      const Box box = Inside(*found->box, width, height);
      if (box.empty()) continue;
      // The pixels around the box take part.
      const cv::Mat part = picture(RectOf(box));
      cv::GaussianBlur(part, part, {settings_.kernel, settings_.kernel}, 0);
    }
    WritePicture(Resize(picture, settings_.target.width, settings_.target.height), settings_.target.planes,
                 outputs.AddFloats(0, settings_.target.Dims({1})));
  }

 private:
  const Settings settings_;
};

}  // namespace

const char* const kNodeName = "face_blur";
std::unique_ptr<Node> MakeNode(Params& params) { return std::make_unique<FaceBlur>(Settings(params)); }

}  // namespace braid::custom_nodes
