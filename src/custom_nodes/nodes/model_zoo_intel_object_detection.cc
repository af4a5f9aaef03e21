// Cuts the detections of a detector out of the picture.
//
// Inputs: image, FP32 [1, 3, H, W] or [1, H, W, 3]; detection, FP32 [1, 1, D, 7], see ReadDetection().
// Outputs: images, FP32 [N, 1, C, h, w] or [N, 1, h, w, C]; coordinates, FP32 [N, 1, 4], as they came.
// Also confidences, FP32 [N, 1, 1]; label_ids, I32 [N, 1, 1].
#include <algorithm>

#include "custom_nodes/images.h"
#include "custom_nodes/nodes/interface.h"

namespace braid::custom_nodes {
namespace {

constexpr int32_t kAnyLabel = -1;

struct Settings : CropParams {
  explicit Settings(Params& params)
      : CropParams(params),
        label(params.FindInt("filter_label_id").value_or(kAnyLabel)),
        kept(static_cast<size_t>(params.Int("buffer_queue_size", 1, 24))) {}

  int32_t label;
  size_t kept;
};

class ObjectDetection final : public Node {
 public:
  explicit ObjectDetection(const Settings& settings)
      : Node({settings.Image(), {"detection", FP32, {1, 1, 0, kDetectionSize}}},
             {settings.Pieces("images"),
              {"coordinates", FP32, {0, 1, 4}},
              {"confidences", FP32, {0, 1, 1}},
              {"label_ids", I32, {0, 1, 1}}},
             settings.debug, {.outputs = settings.kept, .infos = settings.kept}),
        settings_(settings) {}

  void Execute(const std::vector<const CustomNodeTensor*>& inputs, Outputs& outputs) const override {
    const cv::Mat picture = ReadPicture(*inputs[0], settings_.original.planes);
    const std::vector<Detection> chosen = Choose(*inputs[1]);
    const uint64_t count = chosen.size();
    float* const pieces = outputs.AddFloats(0, settings_.target.Dims({count, 1}));
    float* const coordinates = outputs.AddFloats(1, {count, 1, 4});
    float* const confidences = outputs.AddFloats(2, {count, 1, 1});
    int32_t* const labels = outputs.AddInts(3, {count, 1, 1});
    for (size_t i = 0; i < chosen.size(); ++i) {
      settings_.WritePiece(picture(RectOf(*chosen[i].box)), i, pieces);
      std::ranges::copy(chosen[i].corners, coordinates + 4 * i);
      confidences[i] = chosen[i].confidence;
      labels[i] = chosen[i].label;
    }
  }

 private:
  // Their boxes lie in the picture.
  std::vector<Detection> Choose(const CustomNodeTensor& input) const {
    const uint64_t rows = input.dims[2];
    if (rows == 0) throw std::invalid_argument("input 'detection' has no rows");
    const auto* row = reinterpret_cast<const float*>(input.data);
    std::vector<Detection> chosen;
    const auto [width, height, channels, planes] = settings_.original;
    for (uint64_t i = 0; i < rows && chosen.size() < settings_.max_output_batch; ++i, row += kDetectionSize) {
      auto found = ReadDetection(row, settings_.confidence_threshold, width, height);
      if (!found || (settings_.label != kAnyLabel && settings_.label != found->label)) continue;
      if (found->box) found->box = GuardedCrop(*found->box, width, height);
      if ((!found->box || found->box->empty()) &&
          settings_.Skips("detection", i, "has no pixel in the picture"))
        continue;
      chosen.push_back(*found);
    }
    return chosen;
  }

  const Settings settings_;
};

}  // namespace

const char* const kNodeName = "model_zoo_intel_object_detection";
std::unique_ptr<Node> MakeNode(Params& params) { return std::make_unique<ObjectDetection>(Settings(params)); }

}  // namespace braid::custom_nodes
