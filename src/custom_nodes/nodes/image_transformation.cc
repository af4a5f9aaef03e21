// Converts a picture to a model's input: colours, size, scale and layout.
//
// Inputs: image, FP32 [1, H, W, C] or [1, C, H, W].
// Outputs: image, likewise.
#include <opencv2/imgproc.hpp>

#include "custom_nodes/images.h"
#include "custom_nodes/nodes/interface.h"

namespace braid::custom_nodes {
namespace {

// -1 and 0 are both "as it is" afterwards, but only -1 is allowed.
int TargetSize(Params& params, const std::string& key) {
  const int size = params.FindInt(key).value_or(-1);
  if (size != -1 && size < 1) params.Refuse(key, "a whole number of at least 1, or -1 to keep the size");
  return size == -1 ? 0 : size;
}

struct Settings {
  std::string original_colors;
  std::string target_colors;
  PictureShape original;
  PictureShape target;
  cv::Scalar mean = cv::Scalar::all(0);
  cv::Scalar divisor = cv::Scalar::all(1);
  bool scaled = false;
  bool debug = false;

  explicit Settings(Params& params) {
    original_colors = Colors(params, "original_image_color_order", "BGR");
    target_colors = Colors(params, "target_image_color_order", original_colors.c_str());
    original.channels = original_colors == "GRAY" ? 1 : 3;
    target.channels = target_colors == "GRAY" ? 1 : 3;
    original.planes = PlanesOf(params, "original_image_layout", nullptr);
    const std::string layout =
        params.Choice("target_image_layout", {"NCHW", "NHWC", ""}, original.planes ? "NCHW" : "NHWC");
    target.planes = layout.empty() ? original.planes : layout == "NCHW";
    target.width = TargetSize(params, "target_image_width");
    target.height = TargetSize(params, "target_image_height");
    CheckPictureSize(std::max(target.width, 1), std::max(target.height, 1), target.channels);

    const std::optional<float> scale = params.FindFloat("scale");
    scaled = Channels(params, "mean_values", mean);
    const bool each = Channels(params, "scale_values", divisor);
    for (int channel = 0; each && channel < target.channels; ++channel) {
      if (divisor[channel] == 0) params.Refuse("scale_values", "numbers other than 0");
    }
    if (!each && scale) {
      if (*scale == 0) params.Refuse("scale", "a number other than 0");
      divisor = cv::Scalar::all(*scale);
    }
    scaled = scaled || each || scale;
    debug = params.Flag("debug");
  }

 private:
  static std::string Colors(Params& params, const char* key, const char* otherwise) {
    const std::string colors = params.Choice(key, {"BGR", "RGB", "GRAY", ""}, otherwise);
    return colors.empty() ? otherwise : colors;
  }
  // Returns whether the numbers are given.
  bool Channels(Params& params, const char* key, cv::Scalar& channels) const {
    const std::vector<float> numbers = params.FindFloats(key);
    if (numbers.empty()) return false;
    if (numbers.size() != static_cast<size_t>(target.channels))
      params.Refuse(key, "one number for each of " + std::to_string(target.channels) + " channels");
    for (size_t i = 0; i < numbers.size(); ++i) channels[static_cast<int>(i)] = numbers[i];
    return true;
  }
};

cv::Mat ConvertColors(const cv::Mat& picture, const std::string& from, const std::string& to) {
  if (from == to) return picture;
  cv::Mat converted;
  if (from == "GRAY") {
    cv::cvtColor(picture, converted, cv::COLOR_GRAY2BGR);
  } else if (to == "GRAY") {
    cv::cvtColor(picture, converted, from == "BGR" ? cv::COLOR_BGR2GRAY : cv::COLOR_RGB2GRAY);
  } else {
    cv::cvtColor(picture, converted, cv::COLOR_BGR2RGB);
  }
  return converted;
}

cv::Mat Scale(const cv::Mat& picture, const Settings& settings) {
  if (!settings.scaled) return picture;
  cv::Mat scaled;
  cv::subtract(picture, settings.mean, scaled);
  cv::divide(scaled, settings.divisor, scaled);
  return scaled;
}

class ImageTransformation final : public Node {
 public:
  explicit ImageTransformation(const Settings& settings)
      : Node({{"image", FP32, {1, 0, 0, 0}}}, {{"image", FP32, settings.target.Dims({1})}}, settings.debug),
        settings_(settings) {}

  void Execute(const std::vector<const CustomNodeTensor*>& inputs, Outputs& outputs) const override {
    cv::Mat picture = ReadPicture(*inputs[0], settings_.original.planes);
    if (picture.channels() != settings_.original.channels) {
      throw std::invalid_argument("input 'image': expected " + std::to_string(settings_.original.channels) +
                                  " channels, got " + std::to_string(picture.channels()));
    }
    PictureShape target = settings_.target;
    if (target.width == 0) target.width = picture.cols;
    if (target.height == 0) target.height = picture.rows;
    CheckPictureSize(target.width, target.height, target.channels);
    picture = ConvertColors(picture, settings_.original_colors, settings_.target_colors);
    // Scales whichever has fewer pixels.
    const bool grows =
        picture.total() < static_cast<size_t>(target.width) * static_cast<size_t>(target.height);
    picture = grows ? Resize(Scale(picture, settings_), target.width, target.height)
                    : Scale(Resize(picture, target.width, target.height), settings_);
    WritePicture(picture, target.planes, outputs.AddFloats(0, target.Dims({1})));
  }

 private:
  const Settings settings_;
};

}  // namespace

const char* const kNodeName = "image_transformation";
std::unique_ptr<Node> MakeNode(Params& params) {
  return std::make_unique<ImageTransformation>(Settings(params));
}

}  // namespace braid::custom_nodes
