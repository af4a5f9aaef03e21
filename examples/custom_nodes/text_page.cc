// Text page: converts any picture to the input of a text detection network: limited in size, with sides that
// are multiples of 32.
//
// Inputs   image    FP32 [1, H, W, 3]  BGR from 0 to 255
// Outputs  page     FP32 [1, h, w, 3]  the image, padded on its right and bottom
// Params   longest  the longer side in pixels; larger images are scaled down; default 1280
#include <algorithm>
#include <opencv2/imgproc.hpp>

#include "node.h"

namespace {

constexpr int kStep = 32;

struct Settings {
  int longest;

  explicit Settings(const node::Params& params) : longest(static_cast<int>(params.Number("longest", 1280))) {
    if (longest < kStep || longest > 16384) {
      throw std::invalid_argument("param 'longest' is not from 32 to 16384");
    }
  }
};

int RoundUp(int size) { return (size + kStep - 1) / kStep * kStep; }

}  // namespace

int initialize(void** manager, const CustomNodeParam* params, int params_count) {
  return node::Guarded("text_page", [&] { *manager = new Settings(node::Params(params, params_count)); });
}

int deinitialize(void* manager) {
  delete static_cast<Settings*>(manager);
  return 0;
}

int execute(const CustomNodeTensor* inputs, int inputs_count, CustomNodeTensor** outputs, int* outputs_count,
            const CustomNodeParam*, int, void* manager) {
  return node::Guarded("text_page", [&] {
    const auto& settings = *static_cast<Settings*>(manager);
    const CustomNodeTensor& picture = node::Input(inputs, inputs_count, "image", FP32, {1, 0, 0, 3});
    cv::Mat image(static_cast<int>(picture.dims[1]), static_cast<int>(picture.dims[2]), CV_32FC3,
                  picture.data);
    if (image.empty()) throw std::invalid_argument("input 'image' has no pixels");
    const int longer = std::max(image.cols, image.rows);
    if (longer > settings.longest) {
      const double scale = static_cast<double>(settings.longest) / longer;
      const auto scaled = [scale](int side) { return std::max(1, static_cast<int>(side * scale + 0.5)); };
      cv::Mat smaller;
      cv::resize(image, smaller, cv::Size(scaled(image.cols), scaled(image.rows)), 0, 0, cv::INTER_AREA);
      image = smaller;
    }
    const int width = RoundUp(image.cols);
    const int height = RoundUp(image.rows);
    node::Outputs made(1);
    auto* pixels =
        made.Add<float>(0, "page", FP32, {1, static_cast<uint64_t>(height), static_cast<uint64_t>(width), 3});
    // OpenCV writes directly into the output.
    cv::Mat page(height, width, CV_32FC3, pixels);
    cv::copyMakeBorder(image, page, 0, height - image.rows, 0, width - image.cols, cv::BORDER_REPLICATE);
    made.Give(outputs, outputs_count);
  });
}

int getInputsInfo(CustomNodeTensorInfo** info, int* info_count, const CustomNodeParam*, int, void*) {
  return node::Guarded("text_page", [&] {
    node::Infos made(1);
    made.Set(0, "image", FP32, {1, 0, 0, 3});
    made.Give(info, info_count);
  });
}

int getOutputsInfo(CustomNodeTensorInfo** info, int* info_count, const CustomNodeParam*, int, void*) {
  return node::Guarded("text_page", [&] {
    node::Infos made(1);
    made.Set(0, "page", FP32, {1, 0, 0, 3});
    made.Give(info, info_count);
  });
}

int release(void* memory, void*) {
  std::free(memory);
  return 0;
}
