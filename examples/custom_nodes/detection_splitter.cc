// Detection splitter: crops each detection of a detector from the image. With "demultiply_count": -1, the
// nodes behind it run once per crop. Without detections, the pipeline ends without results.
//
// Inputs   image        FP32 [1, H, W, C]     C is 1 or 3
//          detections   FP32 [1, 1, N, 7]     image, label, confidence, and left, top, right, bottom as
//                                             parts of the image's size; a negative image number ends
//                                             the list
// Outputs  crops        FP32 [n, 1, h, w, C]
//          boxes        FP32 [n, 1, 4]        left, top, right, bottom, unchanged
//          confidences  FP32 [n, 1, 1]
//          labels       I32  [n, 1, 1]
// Params   crop_width, crop_height   w and h; required
//          confidence_threshold      detections below it are left out; default 0.5
//          label                     detections of other labels are left out; default: all are used
//          max_detections            the maximum number of detections; default: all
#include <opencv2/imgproc.hpp>

#include "node.h"

namespace {

struct Settings {
  int width;
  int height;
  double threshold;
  double label;
  double most;

  explicit Settings(const node::Params& params)
      : width(static_cast<int>(params.Number("crop_width", 0))),
        height(static_cast<int>(params.Number("crop_height", 0))),
        threshold(params.Number("confidence_threshold", 0.5)),
        label(params.Number("label", -1)),
        most(params.Number("max_detections", 1e9)) {
    if (width <= 0 || width > 16384 || height <= 0 || height > 16384) {
      throw std::invalid_argument("params 'crop_width' and 'crop_height' are needed");
    }
  }
};

// A detection as stored in the input.
struct Detection {
  float image;
  float label;
  float confidence;
  float box[4];
};
static_assert(sizeof(Detection) == 7 * sizeof(float), "rows of seven numbers");

// Returns its rectangle in an image; empty if it is outside, or not valid.
cv::Rect PlaceOf(const Detection& detection, const cv::Mat& image) {
  const auto pixel = [](float part, int size) {
    // The comparison is false for NaN, too.
    return part > 0 ? static_cast<int>(std::min(part, 1.0F) * static_cast<float>(size) + 0.5F) : 0;
  };
  const cv::Point first(pixel(detection.box[0], image.cols), pixel(detection.box[1], image.rows));
  const cv::Point last(pixel(detection.box[2], image.cols), pixel(detection.box[3], image.rows));
  return last.x > first.x && last.y > first.y ? cv::Rect(first, last) : cv::Rect();
}

std::vector<Detection> Choose(const CustomNodeTensor& input, const Settings& settings, const cv::Mat& image) {
  std::vector<Detection> chosen;
  const auto* rows = reinterpret_cast<const Detection*>(input.data);
  for (uint64_t i = 0; i < input.dims[2] && static_cast<double>(chosen.size()) < settings.most; ++i) {
    if (rows[i].image < 0) break;
    if (!(rows[i].confidence >= settings.threshold)) continue;
    if (settings.label >= 0 && rows[i].label != settings.label) continue;
    if (!PlaceOf(rows[i], image).empty()) chosen.push_back(rows[i]);
  }
  return chosen;
}

}  // namespace

int initialize(void** manager, const CustomNodeParam* params, int params_count) {
  return node::Guarded("detection_splitter",
                       [&] { *manager = new Settings(node::Params(params, params_count)); });
}

int deinitialize(void* manager) {
  delete static_cast<Settings*>(manager);
  return 0;
}

int execute(const CustomNodeTensor* inputs, int inputs_count, CustomNodeTensor** outputs, int* outputs_count,
            const CustomNodeParam*, int, void* manager) {
  return node::Guarded("detection_splitter", [&] {
    const auto& settings = *static_cast<Settings*>(manager);
    const CustomNodeTensor& picture = node::Input(inputs, inputs_count, "image", FP32, {1, 0, 0, 0});
    const CustomNodeTensor& detections = node::Input(inputs, inputs_count, "detections", FP32, {1, 1, 0, 7});
    const uint64_t channels = picture.dims[3];
    if (channels != 1 && channels != 3)
      throw std::invalid_argument("input 'image' has neither one channel nor three");
    const int type = CV_32FC(static_cast<int>(channels));
    const cv::Mat image(static_cast<int>(picture.dims[1]), static_cast<int>(picture.dims[2]), type,
                        picture.data);

    const std::vector<Detection> chosen = Choose(detections, settings, image);
    const uint64_t count = chosen.size();
    const auto width = static_cast<uint64_t>(settings.width);
    const auto height = static_cast<uint64_t>(settings.height);
    node::Outputs made(4);
    auto* crops = made.Add<float>(0, "crops", FP32, {count, 1, height, width, channels});
    auto* boxes = made.Add<float>(1, "boxes", FP32, {count, 1, 4});
    auto* confidences = made.Add<float>(2, "confidences", FP32, {count, 1, 1});
    auto* labels = made.Add<int32_t>(3, "labels", I32, {count, 1, 1});
    for (const Detection& detection : chosen) {
      // OpenCV writes directly into the output.
      cv::Mat crop(settings.height, settings.width, type, crops);
      cv::resize(image(PlaceOf(detection, image)), crop, crop.size());
      crops += height * width * channels;
      std::copy_n(detection.box, 4, boxes);
      boxes += 4;
      *confidences++ = detection.confidence;
      *labels++ = static_cast<int32_t>(detection.label);
    }
    made.Give(outputs, outputs_count);
  });
}

int getInputsInfo(CustomNodeTensorInfo** info, int* info_count, const CustomNodeParam*, int, void*) {
  return node::Guarded("detection_splitter", [&] {
    node::Infos made(2);
    made.Set(0, "image", FP32, {1, 0, 0, 0});
    made.Set(1, "detections", FP32, {1, 1, 0, 7});
    made.Give(info, info_count);
  });
}

int getOutputsInfo(CustomNodeTensorInfo** info, int* info_count, const CustomNodeParam*, int, void* manager) {
  return node::Guarded("detection_splitter", [&] {
    const auto& settings = *static_cast<Settings*>(manager);
    node::Infos made(4);
    made.Set(0, "crops", FP32,
             {0, 1, static_cast<uint64_t>(settings.height), static_cast<uint64_t>(settings.width), 0});
    made.Set(1, "boxes", FP32, {0, 1, 4});
    made.Set(2, "confidences", FP32, {0, 1, 1});
    made.Set(3, "labels", I32, {0, 1, 1});
    made.Give(info, info_count);
  });
}

int release(void* memory, void*) {
  std::free(memory);
  return 0;
}
