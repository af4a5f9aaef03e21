// Image transform: converts any image to a model's input: crops, resizes and normalises it, and reorders
// colours and dimensions.
//
// Inputs   image          FP32 [1, H, W, C]  C is 1 or 3
// Outputs  image          FP32 [1, h, w, C], or [1, C, h, w]
// Params   target_width, target_height  w and h; default: the image's own
//          center_crop    "true": crops the largest central part with the target's proportions, so that
//                         nothing is distorted; "false" (the default): uses the whole image
//          mean, scale    (value - mean) / scale; each is one number or one per channel, separated by
//                         commas
//          swap_colors    "true": BGR becomes RGB, and RGB becomes BGR; before mean and scale
//          layout         of the output: "NHWC" (the default) or "NCHW"
#include <opencv2/imgproc.hpp>

#include "node.h"

namespace {

// The params, read once for the node.
struct Settings {
  int width = 0;
  int height = 0;
  bool center_crop = false;
  bool swap_colors = false;
  bool channels_first = false;
  std::vector<double> mean;
  std::vector<double> scale;

  explicit Settings(const node::Params& params)
      : width(Size(params, "target_width")),
        height(Size(params, "target_height")),
        center_crop(params.Flag("center_crop")),
        swap_colors(params.Flag("swap_colors")),
        mean(params.Numbers("mean")),
        scale(params.Numbers("scale")) {
    const std::string layout = params.Text("layout", "NHWC");
    if (layout != "NHWC" && layout != "NCHW")
      throw std::invalid_argument("param 'layout' is neither NHWC nor NCHW");
    channels_first = layout == "NCHW";
    if (center_crop && (width == 0 || height == 0)) {
      throw std::invalid_argument("param 'center_crop' needs target_width and target_height");
    }
    for (double number : scale) {
      if (number == 0) throw std::invalid_argument("param 'scale' is 0");
    }
  }

  static int Size(const node::Params& params, const std::string& key) {
    const double size = params.Number(key, 0);
    if (size < 0 || size > 16384 || size != static_cast<int>(size)) {
      throw std::invalid_argument("param '" + key + "' is no size");
    }
    return static_cast<int>(size);
  }
};

// Returns the central part of an image that has the target's proportions.
cv::Rect MiddleOf(const cv::Mat& image, const Settings& settings) {
  const double factor = std::min(static_cast<double>(image.cols) / settings.width,
                                 static_cast<double>(image.rows) / settings.height);
  const int width = std::max(1, static_cast<int>(settings.width * factor + 0.5));
  const int height = std::max(1, static_cast<int>(settings.height * factor + 0.5));
  return {(image.cols - width) / 2, (image.rows - height) / 2, width, height};
}

// Returns the channel's own number, or the one for all channels.
float ForChannel(const std::vector<double>& numbers, int channel, int channels, float otherwise) {
  if (numbers.empty()) return otherwise;
  if (numbers.size() == 1) return static_cast<float>(numbers[0]);
  if (numbers.size() != static_cast<size_t>(channels)) {
    throw std::invalid_argument("mean and scale have one number, or one for each channel");
  }
  return static_cast<float>(numbers[static_cast<size_t>(channel)]);
}

void Transform(const CustomNodeTensor& input, const Settings& settings, node::Outputs& outputs) {
  const int channels = static_cast<int>(input.dims[3]);
  if (input.dims[1] == 0 || input.dims[2] == 0 || (channels != 1 && channels != 3)) {
    throw std::invalid_argument("input 'image' is no image of one channel or three");
  }
  // A view: the input is neither changed nor copied.
  cv::Mat image(static_cast<int>(input.dims[1]), static_cast<int>(input.dims[2]), CV_32FC(channels),
                input.data);
  if (settings.center_crop) image = image(MiddleOf(image, settings));
  const cv::Size size(settings.width > 0 ? settings.width : image.cols,
                      settings.height > 0 ? settings.height : image.rows);
  cv::Mat resized;
  cv::resize(image, resized, size);

  const auto width = static_cast<uint64_t>(size.width);
  const auto height = static_cast<uint64_t>(size.height);
  const auto depth = static_cast<uint64_t>(channels);
  const std::vector<uint64_t> dims = settings.channels_first ? std::vector<uint64_t>{1, depth, height, width}
                                                             : std::vector<uint64_t>{1, height, width, depth};
  float* to = outputs.Add<float>(0, "image", FP32, dims);
  for (int channel = 0; channel < channels; ++channel) {
    const int from = settings.swap_colors ? channels - 1 - channel : channel;
    const float mean = ForChannel(settings.mean, channel, channels, 0);
    const float scale = ForChannel(settings.scale, channel, channels, 1);
    for (int y = 0; y < size.height; ++y) {
      const auto* row = resized.ptr<float>(y);
      for (int x = 0; x < size.width; ++x) {
        const uint64_t pixel = static_cast<uint64_t>(y) * width + static_cast<uint64_t>(x);
        const auto place = settings.channels_first ? static_cast<uint64_t>(channel) * width * height + pixel
                                                   : pixel * depth + static_cast<uint64_t>(channel);
        to[place] = (row[x * channels + from] - mean) / scale;
      }
    }
  }
}

}  // namespace

int initialize(void** manager, const CustomNodeParam* params, int params_count) {
  return node::Guarded("image_transform",
                       [&] { *manager = new Settings(node::Params(params, params_count)); });
}

int deinitialize(void* manager) {
  delete static_cast<Settings*>(manager);
  return 0;
}

int execute(const CustomNodeTensor* inputs, int inputs_count, CustomNodeTensor** outputs, int* outputs_count,
            const CustomNodeParam*, int, void* manager) {
  return node::Guarded("image_transform", [&] {
    node::Outputs made(1);
    Transform(node::Input(inputs, inputs_count, "image", FP32, {1, 0, 0, 0}),
              *static_cast<Settings*>(manager), made);
    made.Give(outputs, outputs_count);
  });
}

int getInputsInfo(CustomNodeTensorInfo** info, int* info_count, const CustomNodeParam*, int, void*) {
  return node::Guarded("image_transform", [&] {
    node::Infos made(1);
    made.Set(0, "image", FP32, {1, 0, 0, 0});
    made.Give(info, info_count);
  });
}

int getOutputsInfo(CustomNodeTensorInfo** info, int* info_count, const CustomNodeParam*, int, void* manager) {
  return node::Guarded("image_transform", [&] {
    const auto& settings = *static_cast<Settings*>(manager);
    const auto width = static_cast<uint64_t>(settings.width);
    const auto height = static_cast<uint64_t>(settings.height);
    node::Infos made(1);
    if (settings.channels_first) {
      made.Set(0, "image", FP32, {1, 0, height, width});
    } else {
      made.Set(0, "image", FP32, {1, height, width, 0});
    }
    made.Give(info, info_count);
  });
}

int release(void* memory, void*) {
  std::free(memory);
  return 0;
}
