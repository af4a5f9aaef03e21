// Text lines: crops the lines of text from a page, by the map of a text detection network (DBNet or
// PaddleOCR). With "demultiply_count": -1, the nodes behind it run once per line. A page without text ends
// the pipeline without results.
//
// Inputs   page   FP32 [1, H, W, 3]
//          map    FP32 [1, 1, H, W]         the probability of text at each pixel, from 0 to 1
// Outputs  lines  FP32 [n, 1, h, w, 3]      the longest line sets w, others are padded; sorted from top to
//                                           bottom, and in a row from left to right
//          boxes  FP32 [n, 1, 4]            left, top, right, bottom in pixels of the page
// Params   height     h; default 48
//          sure       a pixel with a higher probability is text; default 0.3
//          mean_sure  the least mean probability of a line's pixels; default 0.5
//          growth     the map shows the core of a line: its box grows by this times its area divided by
//                     its perimeter; default 1.6
//          padding    the value that fills the end of shorter lines; default 127.5
#include <algorithm>
#include <opencv2/imgproc.hpp>

#include "node.h"

namespace {

constexpr int kSmallest = 4;

struct Settings {
  int height;
  double sure;
  double mean_sure;
  double growth;
  float padding;

  explicit Settings(const node::Params& params)
      : height(static_cast<int>(params.Number("height", 48))),
        sure(params.Number("sure", 0.3)),
        mean_sure(params.Number("mean_sure", 0.5)),
        growth(params.Number("growth", 1.6)),
        padding(static_cast<float>(params.Number("padding", 127.5))) {
    if (height < 1 || height > 1024) throw std::invalid_argument("param 'height' is not from 1 to 1024");
    if (growth < 0 || growth > 100) throw std::invalid_argument("param 'growth' is not from 0 to 100");
  }
};

cv::Rect Grown(const cv::Rect& box, double growth, const cv::Size& page) {
  const int by = static_cast<int>(growth * box.area() / (2 * (box.width + box.height)) + 0.5);
  return cv::Rect(box.x - by, box.y - by, box.width + 2 * by, box.height + 2 * by) &
         cv::Rect(cv::Point(), page);
}

// Sorts into rows: a box belongs to a row if it begins above the middle of the row's first box.
void Sort(std::vector<cv::Rect>& boxes) {
  std::sort(boxes.begin(), boxes.end(),
            [](const cv::Rect& a, const cv::Rect& b) { return std::pair(a.y, a.x) < std::pair(b.y, b.x); });
  for (auto row = boxes.begin(); row != boxes.end();) {
    const int middle2 = 2 * row->y + row->height;
    const auto end =
        std::find_if(row, boxes.end(), [middle2](const cv::Rect& box) { return 2 * box.y >= middle2; });
    std::sort(row, end, [](const cv::Rect& a, const cv::Rect& b) { return a.x < b.x; });
    row = end;
  }
}

std::vector<cv::Rect> Find(const cv::Mat& map, const Settings& settings) {
  const cv::Mat text = map > settings.sure;
  cv::Mat places;
  cv::Mat stats;
  cv::Mat centres;
  const int count = cv::connectedComponentsWithStats(text, places, stats, centres);
  std::vector<double> sums(static_cast<size_t>(count));
  for (int y = 0; y < map.rows; ++y) {
    for (int x = 0; x < map.cols; ++x) sums[static_cast<size_t>(places.at<int>(y, x))] += map.at<float>(y, x);
  }
  std::vector<cv::Rect> boxes;
  for (int i = 1; i < count; ++i) {  // component 0 is the background
    const int* stat = stats.ptr<int>(i);
    const cv::Rect box(stat[cv::CC_STAT_LEFT], stat[cv::CC_STAT_TOP], stat[cv::CC_STAT_WIDTH],
                       stat[cv::CC_STAT_HEIGHT]);
    if (std::min(box.width, box.height) < kSmallest) continue;
    if (sums[static_cast<size_t>(i)] / stat[cv::CC_STAT_AREA] < settings.mean_sure) continue;
    boxes.push_back(Grown(box, settings.growth, map.size()));
  }
  Sort(boxes);
  return boxes;
}

}  // namespace

int initialize(void** manager, const CustomNodeParam* params, int params_count) {
  return node::Guarded("text_lines", [&] { *manager = new Settings(node::Params(params, params_count)); });
}

int deinitialize(void* manager) {
  delete static_cast<Settings*>(manager);
  return 0;
}

int execute(const CustomNodeTensor* inputs, int inputs_count, CustomNodeTensor** outputs, int* outputs_count,
            const CustomNodeParam*, int, void* manager) {
  return node::Guarded("text_lines", [&] {
    const auto& settings = *static_cast<Settings*>(manager);
    const CustomNodeTensor& picture = node::Input(inputs, inputs_count, "page", FP32, {1, 0, 0, 3});
    const uint64_t page_height = picture.dims[1];
    const uint64_t page_width = picture.dims[2];
    const CustomNodeTensor& found =
        node::Input(inputs, inputs_count, "map", FP32, {1, 1, page_height, page_width});
    const cv::Size size(static_cast<int>(page_width), static_cast<int>(page_height));
    const cv::Mat page(size, CV_32FC3, picture.data);
    const std::vector<cv::Rect> boxes = Find(cv::Mat(size, CV_32F, found.data), settings);

    const auto width_of = [&](const cv::Rect& box) {
      return std::max(settings.height,
                      static_cast<int>(static_cast<double>(box.width) * settings.height / box.height + 0.5));
    };
    int longest = settings.height;
    for (const cv::Rect& box : boxes) longest = std::max(longest, width_of(box));
    node::Outputs made(2);
    const auto count = static_cast<uint64_t>(boxes.size());
    auto* pixels = made.Add<float>(
        0, "lines", FP32,
        {count, 1, static_cast<uint64_t>(settings.height), static_cast<uint64_t>(longest), 3});
    auto* sides = made.Add<float>(1, "boxes", FP32, {count, 1, 4});
    for (const cv::Rect& box : boxes) {
      cv::Mat line(settings.height, longest, CV_32FC3, pixels);
      line.setTo(cv::Scalar::all(settings.padding));
      // OpenCV writes directly into the output.
      cv::Mat written = line.colRange(0, width_of(box));
      cv::resize(page(box), written, written.size(), 0, 0, cv::INTER_LINEAR);
      pixels += static_cast<size_t>(settings.height) * static_cast<size_t>(longest) * 3;
      for (const int side : {box.x, box.y, box.x + box.width, box.y + box.height})
        *sides++ = static_cast<float>(side);
    }
    made.Give(outputs, outputs_count);
  });
}

int getInputsInfo(CustomNodeTensorInfo** info, int* info_count, const CustomNodeParam*, int, void*) {
  return node::Guarded("text_lines", [&] {
    node::Infos made(2);
    made.Set(0, "page", FP32, {1, 0, 0, 3});
    made.Set(1, "map", FP32, {1, 1, 0, 0});
    made.Give(info, info_count);
  });
}

int getOutputsInfo(CustomNodeTensorInfo** info, int* info_count, const CustomNodeParam*, int, void* manager) {
  return node::Guarded("text_lines", [&] {
    const auto& settings = *static_cast<Settings*>(manager);
    node::Infos made(2);
    made.Set(0, "lines", FP32, {0, 1, static_cast<uint64_t>(settings.height), 0, 3});
    made.Set(1, "boxes", FP32, {0, 1, 4});
    made.Give(info, info_count);
  });
}

int release(void* memory, void*) {
  std::free(memory);
  return 0;
}
