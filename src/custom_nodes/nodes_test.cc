// The libraries of the built-in nodes, called as a pipeline calls them.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "base/testing/places.h"
#include "include/custom_node_interface.h"
#include "pipeline/testing/node_calls.h"
#include "serving/faults.h"

namespace braid {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using testing::Floats;
using ::testing::HasSubstr;
using testing::OpenNode;
using ::testing::Pointwise;
using testing::Values;
using Params = testing::NodeParams;
using Outputs = std::vector<Tensor>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::string PathOf(const std::string& name) {
  return std::string(test_places::kBuiltInNodes) + "/libcustom_node_" + name + ".so";
}

std::shared_ptr<const CustomNodeCode> Node(const std::string& name, Params params = {}) {
  auto code = OpenNode(PathOf(name), std::move(params));
  EXPECT_TRUE(code.ok()) << code.status();
  return std::move(code).value();
}

Outputs Answer(const CustomNodeCode& node, const std::vector<Tensor>& inputs) {
  auto outputs = node.Execute(inputs);
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  return outputs.ok() ? *std::move(outputs) : Outputs(4);
}

// Expects CodeFor() to refuse a node's params with this reason.
void ExpectRefused(const std::string& name, Params params, const std::string& reason) {
  const auto code = OpenNode(PathOf(name), std::move(params));
  ASSERT_FALSE(code.ok());
  EXPECT_EQ(code.status().fault(), Fault::kNodeLibraryInitializeFailed);
  EXPECT_THAT(code.status().message(), HasSubstr("initialize threw: " + reason));
}

void ExpectFails(const CustomNodeCode& node, const std::vector<Tensor>& inputs, const std::string& reason) {
  const auto outputs = node.Execute(inputs);
  ASSERT_FALSE(outputs.ok());
  EXPECT_EQ(outputs.status().fault(), Fault::kNodeLibraryExecutionFailed);
  EXPECT_THAT(outputs.status().message(), HasSubstr("execute threw: " + reason));
}

// Returns `params` with some entries added, replaced, or removed (by the value "-").
Params With(Params params, const Params& more) {
  for (const auto& [key, value] : more) {
    std::erase_if(params, [&key = key](const auto& param) { return param.first == key; });
    if (value != "-") params.emplace_back(key, value);
  }
  return params;
}

// Expects numbers, with the tolerance of single precision.
auto Are(const std::vector<float>& expected) { return Pointwise(FloatNear(2e-4F), expected); }

// A gray picture in three equal channels, NHWC.
Tensor Gray(int64_t height, int64_t width, const std::vector<float>& pixels) {
  std::vector<float> values;
  for (const float pixel : pixels) values.insert(values.end(), 3, pixel);
  return Floats("image", {1, height, width, 3}, values);
}

// Returns every third number.
std::vector<float> FirstChannel(const Tensor& picture) {
  std::vector<float> first;
  const auto values = Values<float>(picture);
  for (size_t i = 0; i < values.size(); i += 3) first.push_back(values[i]);
  return first;
}

std::vector<float> Ramp(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i);
  return values;
}

// ------------------------------------------------------------------------------------------------- add_one

TEST(AddOne, AddsAndSubtracts) {
  const auto run = [](Params params, const std::vector<float>& values) {
    return Values<float>(
        Answer(*Node("add_one", std::move(params)), {Floats("input_numbers", {1, 10}, values)})[0]);
  };
  EXPECT_THAT(run({}, Ramp(10)), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
  EXPECT_THAT(run({{"add_number", "5"}, {"sub_number", "2"}}, std::vector<float>(10, 1.5F)), Each(4.5F));
  // Each step is rounded to single precision.
  EXPECT_THAT(run({{"sub_number", "1"}}, std::vector<float>(10, 16777216)), Each(16777215));
  EXPECT_THAT(run({{"add_number", "7.9"}}, std::vector<float>(10, 0)), Each(7));
  EXPECT_THAT(run({{"add_number", "abc"}}, std::vector<float>(10, 0)), Each(1));
}

TEST(AddOne, DescribesItself) {
  const auto node = Node("add_one");
  EXPECT_EQ(node->Inputs()->at(0).name, "input_numbers");
  EXPECT_THAT(node->Inputs()->at(0).shape, ElementsAre(1, 10));
  EXPECT_EQ(node->Outputs()->at(0).name, "output_numbers");
  EXPECT_EQ(node->Outputs()->at(0).type, DataType::kFp32);
}

TEST(AddOne, RefusesBadParamsAndInputs) {
  ExpectRefused("add_one", {{"add_number", "-1"}}, "param 'add_number' is '-1'");
  ExpectRefused("add_one", {{"sub_number", "-1"}}, "param 'sub_number' is '-1'");
  ExpectRefused("add_one", {{"output_queue_size", "0"}}, "param 'output_queue_size' is '0'");
  ExpectRefused("add_one", {{"info_queue_size", "0"}}, "param 'info_queue_size' is '0'");
  const auto node = Node("add_one");
  ExpectFails(*node, {Floats("input_numbers", {1, 9}, Ramp(9))},
              "input 'input_numbers': expected FP32 [1,10], where 0 is any size, got FP32 [1,9]");
  ExpectFails(*node, {Floats("x", {1, 10}, Ramp(10))}, "input 'input_numbers' is missing");
  ExpectFails(*node, {Floats("input_numbers", {1, 10}, Ramp(10)), Floats("x", {1}, {0})},
              "expected 1 inputs, got 2");
}

TEST(AddOne, MayBeInitializedAgain) {
  void* const library = dlopen(PathOf("add_one").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto start = reinterpret_cast<decltype(&initialize)>(dlsym(library, "initialize"));
  const auto end = reinterpret_cast<decltype(&deinitialize)>(dlsym(library, "deinitialize"));
  void* manager = nullptr;
  const CustomNodeParam param = {"output_queue_size", "3"};
  EXPECT_EQ(start(&manager, nullptr, 0), 0);
  void* const first = manager;
  EXPECT_EQ(start(&manager, &param, 1), 0);
  EXPECT_EQ(manager, first);
  EXPECT_EQ(end(manager), 0);
  dlclose(library);
}

// ------------------------------------------------------------------------------------ image_transformation

Outputs Transform(const Params& params, const Tensor& image) {
  return Answer(*Node("image_transformation", With({{"original_image_layout", "NHWC"}}, params)), {image});
}

TEST(ImageTransformation, ConvertsColors) {
  const Tensor pixel = Floats("image", {1, 1, 1, 3}, {10, 20, 30});
  const auto gray = Transform({{"target_image_color_order", "GRAY"}}, pixel);
  EXPECT_THAT(gray[0].shape, ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(Values<float>(gray[0]), Are({21.85F}));
  EXPECT_THAT(
      Values<float>(Transform({{"original_image_color_order", "RGB"}, {"target_image_color_order", "GRAY"}},
                              Floats("image", {1, 1, 1, 3}, {30, 20, 10}))[0]),
      Are({21.85F}));
  EXPECT_THAT(Values<float>(Transform({{"target_image_color_order", "RGB"}}, pixel)[0]), Are({30, 20, 10}));
  EXPECT_THAT(Values<float>(Transform({{"target_image_color_order", ""}}, pixel)[0]), Are({10, 20, 30}));
}

TEST(ImageTransformation, Scales) {
  EXPECT_THAT(Values<float>(Transform(
                  {{"mean_values", "[123.675,116.28,103.53]"}, {"scale_values", "[58.395,57.12,57.375]"}},
                  Floats("image", {1, 1, 1, 3}, {0, 128, 255}))[0]),
              Pointwise(FloatNear(1e-5F), {-2.11790F, 0.20518F, 2.64000F}));
  EXPECT_THAT(Values<float>(Transform({{"original_image_color_order", "GRAY"},
                                       {"target_image_color_order", "RGB"},
                                       {"mean_values", "[-2,-2,-2]"},
                                       {"scale_values", "[0.5,0.5,0.5]"},
                                       {"scale", "100"}},
                                      Floats("image", {1, 1, 1, 1}, {1}))[0]),
              Are({6, 6, 6}));
  EXPECT_THAT(Values<float>(Transform({{"mean_values", "1, 2, 3"}, {"scale", "2"}},
                                      Floats("image", {1, 1, 1, 3}, {2, 4, 6}))[0]),
              Are({1, 2, 3}));
}

TEST(ImageTransformation, ChangesTheLayout) {
  const Tensor image = Floats("image", {1, 1, 2, 3}, {1, 2, 3, 4, 5, 6});
  const auto planes = Transform({{"target_image_layout", "NCHW"}}, image);
  EXPECT_THAT(planes[0].shape, ElementsAre(1, 3, 1, 2));
  EXPECT_THAT(Values<float>(planes[0]), ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_THAT(Values<float>(Transform({{"target_image_layout", "NCHW"}, {"target_image_color_order", "RGB"}},
                                      image)[0]),
              ElementsAre(3, 6, 2, 5, 1, 4));
  const auto back = Transform({{"original_image_layout", "NCHW"}, {"target_image_layout", "NHWC"}},
                              Floats("image", {1, 3, 1, 2}, {1, 4, 2, 5, 3, 6}));
  EXPECT_THAT(Values<float>(back[0]), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(Transform({{"target_image_layout", ""}}, image)[0].shape, ElementsAre(1, 1, 2, 3));
}

TEST(ImageTransformation, Resizes) {
  const Params gray = {{"original_image_color_order", "GRAY"}};
  const auto row = [&](const std::vector<float>& values, const Params& more) {
    return Values<float>(Transform(
        With(gray, more), Floats("image", {1, 1, static_cast<int64_t>(values.size()), 1}, values))[0]);
  };
  EXPECT_THAT(row({0, 10}, {{"target_image_width", "4"}}), Are({0, 2.5F, 7.5F, 10}));
  EXPECT_THAT(row({0, 10, 20, 30}, {{"target_image_width", "2"}}), Are({5, 25}));
  EXPECT_THAT(row({0, 30, 60}, {{"target_image_width", "2"}}), Are({7.5F, 52.5F}));
  EXPECT_THAT(row({0, 10}, {{"target_image_width", "4"}, {"scale", "10"}}), Are({0, 0.25F, 0.75F, 1}));
  EXPECT_THAT(row({0, 10, 20, 30}, {{"target_image_width", "2"}, {"mean_values", "[5]"}}), Are({0, 20}));
  EXPECT_THAT(row({0, 10}, {{"target_image_width", "-1"}}), Are({0, 10}));
  const auto high =
      Transform(With(gray, {{"target_image_height", "3"}}), Floats("image", {1, 1, 2, 1}, {4, 9}));
  EXPECT_THAT(high[0].shape, ElementsAre(1, 3, 2, 1));
  EXPECT_THAT(Values<float>(high[0]), Are({4, 9, 4, 9, 4, 9}));
  // The mean of 2x2.
  EXPECT_THAT(Values<float>(Transform(With(gray, {{"target_image_width", "1"}, {"target_image_height", "1"}}),
                                      Floats("image", {1, 2, 2, 1}, {1, 2, 3, 6}))[0]),
              Are({3}));
}

TEST(ImageTransformation, DescribesItself) {
  const auto shape = [](const Params& params) {
    return Node("image_transformation", With({{"original_image_layout", "NCHW"}}, params))
        ->Outputs()
        ->at(0)
        .shape;
  };
  EXPECT_THAT(Node("image_transformation", {{"original_image_layout", "NCHW"}})->Inputs()->at(0).shape,
              ElementsAre(1, -1, -1, -1));
  EXPECT_THAT(shape({}), ElementsAre(1, 3, -1, -1));
  EXPECT_THAT(shape({{"target_image_width", "4"}, {"target_image_color_order", "GRAY"}}),
              ElementsAre(1, 1, -1, 4));
  EXPECT_THAT(shape({{"target_image_height", "5"}, {"target_image_layout", "NHWC"}}),
              ElementsAre(1, 5, -1, 3));
}

TEST(ImageTransformation, RefusesBadParams) {
  const auto refused = [](const Params& params, const std::string& reason) {
    ExpectRefused("image_transformation", With({{"original_image_layout", "NHWC"}}, params), reason);
  };
  refused({{"original_image_layout", "-"}}, "param 'original_image_layout' is missing");
  refused({{"original_image_layout", "HWC"}}, "param 'original_image_layout' is 'HWC'");
  refused({{"target_image_layout", "nchw"}}, "param 'target_image_layout' is 'nchw'");
  refused({{"target_image_width", "0"}}, "param 'target_image_width' is '0'");
  refused({{"target_image_height", "-2"}}, "param 'target_image_height' is '-2'");
  refused({{"original_image_color_order", "YUV"}}, "param 'original_image_color_order' is 'YUV'");
  refused({{"scale", "0"}}, "param 'scale' is '0'");
  refused({{"scale_values", "[1,0,1]"}}, "param 'scale_values' is '[1,0,1]'");
  refused({{"scale_values", "[1,2]"}}, "param 'scale_values' is '[1,2]': expected one number for each of 3");
  refused({{"mean_values", "[1,2,3]"}, {"target_image_color_order", "GRAY"}},
          "param 'mean_values' is '[1,2,3]'");
  refused({{"target_image_width", "100000"}, {"target_image_height", "100000"}},
          "a picture of 100000x100000x3 is larger than 2 GiB");
}

TEST(ImageTransformation, RefusesBadInputs) {
  const auto node =
      Node("image_transformation", {{"original_image_layout", "NHWC"}, {"target_image_width", "1200"}});
  ExpectFails(*node, {Floats("image", {1, 1, 1, 1}, {0})}, "input 'image': expected 3 channels, got 1");
  ExpectFails(*node, {Floats("image", {1, 1, 1, 2}, {0, 0})}, "input 'image' is no picture: FP32 [1,1,1,2]");
  ExpectFails(*node, {Floats("image", {1, 0, 1, 3}, {})}, "input 'image' is no picture");
  ExpectFails(*node, {Floats("image", {2, 1, 1, 3}, Ramp(6))}, "input 'image': expected FP32 [1,0,0,0]");
  // A small picture does not become a huge one.
  ExpectFails(*node, {Floats("image", {1, 200000, 1, 3}, std::vector<float>(600000))},
              "a picture of 1200x200000x3 is larger than 2 GiB");
}

// -------------------------------------------------------------------------- model_zoo_intel_object_detection

// A picture of 4x4, of which the values are 4y + x.
Tensor Squares() { return Gray(4, 4, Ramp(16)); }
Tensor Detections(std::vector<std::vector<float>> rows, size_t count = 0) {
  std::vector<float> values;
  for (const auto& row : rows) values.insert(values.end(), row.begin(), row.end());
  values.resize(std::max(count, rows.size()) * 7, 0);
  return Floats("detection", {1, 1, static_cast<int64_t>(values.size() / 7), 7}, values);
}

const Params kDetection = {{"original_image_width", "4"},     {"original_image_height", "4"},
                           {"target_image_width", "1"},       {"target_image_height", "1"},
                           {"original_image_layout", "NHWC"}, {"target_image_layout", "NHWC"},
                           {"confidence_threshold", "0.7"}};
constexpr const char* kDetector = "model_zoo_intel_object_detection";

TEST(ObjectDetection, CutsTheDetectionsOut) {
  const auto outputs =
      Answer(*Node(kDetector, kDetection), {Squares(), Detections({{0, 5, 0.7F, 0, 0, 0.5F, 0.5F},
                                                                   {0, 5, 0.69F, 0, 0, 1, 1},
                                                                   {-1, 5, 0.9F, 0, 0, 1, 1},
                                                                   {0, 6, 0.8F, 1, 1, 0.5F, 0.5F}})});
  EXPECT_THAT(outputs[0].shape, ElementsAre(2, 1, 1, 1, 3));
  EXPECT_THAT(Values<float>(outputs[0]), Are({2.5F, 2.5F, 2.5F, 12.5F, 12.5F, 12.5F}));
  EXPECT_THAT(outputs[1].shape, ElementsAre(2, 1, 4));
  EXPECT_THAT(Values<float>(outputs[1]), ElementsAre(0, 0, 0.5F, 0.5F, 1, 1, 0.5F, 0.5F));
  EXPECT_THAT(outputs[2].shape, ElementsAre(2, 1, 1));
  EXPECT_THAT(Values<float>(outputs[2]), ElementsAre(0.7F, 0.8F));
  EXPECT_THAT(outputs[3].shape, ElementsAre(2, 1, 1));
  EXPECT_THAT(Values<int32_t>(outputs[3]), ElementsAre(5, 6));
  EXPECT_EQ(outputs[3].type, DataType::kInt32);
}

TEST(ObjectDetection, HonoursItsParams) {
  const Tensor rows =
      Detections({{0, 1, 0.9F, 0, 0, 0.5F, 0.5F}, {0, 2, 0.9F, 0, 0, 1, 1}, {0, 2, 0.9F, 0, 0, 1, 0.5F}});
  const auto labels = [&](const Params& more) {
    return Values<int32_t>(Answer(*Node(kDetector, With(kDetection, more)), {Squares(), rows})[3]);
  };
  EXPECT_THAT(labels({}), ElementsAre(1, 2, 2));
  EXPECT_THAT(labels({{"filter_label_id", "2"}}), ElementsAre(2, 2));
  const auto cut = Answer(*Node(kDetector, With(kDetection, {{"max_output_batch", "2"}})), {Squares(), rows});
  for (const Tensor& output : cut) EXPECT_EQ(output.shape[0], 2) << output.name;

  // Gray, in the other layout, with a picture of three channels that differ.
  std::vector<float> planes;
  for (const float value : {10.0F, 20.0F, 30.0F}) planes.insert(planes.end(), 16, value);
  const auto gray = Answer(*Node(kDetector, With(kDetection, {{"convert_to_gray_scale", "true"},
                                                              {"original_image_layout", "-"},
                                                              {"target_image_layout", "-"},
                                                              {"target_image_width", "2"}})),
                           {Floats("image", {1, 3, 4, 4}, planes), Detections({{0, 1, 0.9F, 0, 0, 1, 1}})});
  EXPECT_THAT(gray[0].shape, ElementsAre(1, 1, 1, 1, 2));
  EXPECT_THAT(Values<float>(gray[0]), Are({21.85F, 21.85F}));
  const auto color = Answer(
      *Node(kDetector, With(kDetection, {{"original_image_layout", "-"}, {"target_image_layout", "NCHW"}})),
      {Floats("image", {1, 3, 4, 4}, planes), Detections({{0, 1, 0.9F, 0, 0, 1, 1}})});
  EXPECT_THAT(color[0].shape, ElementsAre(1, 1, 3, 1, 1));
  EXPECT_THAT(Values<float>(color[0]), Are({10, 20, 30}));
}

TEST(ObjectDetection, GivesEmptyTensorsWithoutDetections) {
  const auto outputs =
      Answer(*Node(kDetector, kDetection), {Squares(), Detections({{0, 1, 0.1F, 0, 0, 1, 1}})});
  EXPECT_THAT(outputs[0].shape, ElementsAre(0, 1, 1, 1, 3));
  EXPECT_THAT(outputs[3].shape, ElementsAre(0, 1, 1));
  ExpectFails(*Node(kDetector, kDetection), {Squares(), Detections({})}, "input 'detection' has no rows");
}

TEST(ObjectDetection, FailsForAnEmptyBoxUnlessTheySkip) {
  const std::vector<std::vector<float>> bad = {{0, 1, 0.9F, 0.5F, 0, 0.5F, 1},
                                               {0, 1, 0.9F, 1, 0, 2, 1},
                                               {0, 1, 0.9F, kNan, 0, 1, 1},
                                               {0, 1, 0.9F, 0, 1e30F, 1, 1e30F}};
  for (const auto& row : bad) {
    ExpectFails(*Node(kDetector, kDetection), {Squares(), Detections({row})},
                "input 'detection': the box 0 has no pixel in the picture");
  }
  const auto outputs =
      Answer(*Node(kDetector, With(kDetection, {{"skip_empty_boxes", "true"}})),
             {Squares(), Detections({bad[0], bad[1], {0, 1, 0.9F, 0, 0, 1, 1}, bad[2], bad[3]})});
  EXPECT_THAT(Values<float>(outputs[1]), ElementsAre(0, 0, 1, 1));
}

TEST(ObjectDetection, DescribesItself) {
  const auto node =
      Node(kDetector, With(kDetection, {{"target_image_layout", "NCHW"}, {"original_image_width", "8"}}));
  const auto inputs = *node->Inputs();
  EXPECT_EQ(inputs[0].name, "image");
  EXPECT_THAT(inputs[0].shape, ElementsAre(1, 4, 8, 3));
  EXPECT_EQ(inputs[1].name, "detection");
  EXPECT_THAT(inputs[1].shape, ElementsAre(1, 1, -1, 7));
  const auto outputs = *node->Outputs();
  EXPECT_EQ(outputs[0].name, "images");
  EXPECT_THAT(outputs[0].shape, ElementsAre(-1, 1, 3, 1, 1));
  EXPECT_EQ(outputs[1].name, "coordinates");
  EXPECT_THAT(outputs[1].shape, ElementsAre(-1, 1, 4));
  EXPECT_EQ(outputs[2].name, "confidences");
  EXPECT_EQ(outputs[3].name, "label_ids");
  EXPECT_EQ(outputs[3].type, DataType::kInt32);
}

TEST(ObjectDetection, RefusesBadParams) {
  const auto refused = [](const char* key, const char* value) {
    ExpectRefused(kDetector, With(kDetection, {{key, value}}), "param '" + std::string(key) + "' is ");
  };
  for (const char* key : {"original_image_width", "original_image_height", "target_image_width",
                          "target_image_height", "confidence_threshold"}) {
    refused(key, "-");
    refused(key, "x");
    refused(key, "-1");
  }
  refused("confidence_threshold", "1.1");
  refused("max_output_batch", "0");
  refused("max_output_batch", "-1");
  refused("buffer_queue_size", "0");
  refused("target_image_layout", "CHW");
}

// ------------------------------------------------------------------------------------------------ face_blur

const Params kBlur = With(kDetection, {{"target_image_width", "8"},
                                       {"target_image_height", "8"},
                                       {"original_image_width", "8"},
                                       {"original_image_height", "8"},
                                       {"gaussian_blur_kernel_size", "3"}});

std::vector<float> Blur(const std::vector<float>& pixels, std::vector<std::vector<float>> rows,
                        const Params& more = {}) {
  return FirstChannel(Answer(*Node("face_blur", With(kBlur, more)),
                             {Gray(8, 8, pixels), Detections(std::move(rows), 200)})[0]);
}

// A Gaussian blur of the box in numpy's manner: by the definition, with the picture mirrored at its edges.
std::vector<float> Blurred(const std::vector<float>& pixels, int kernel, double sigma, int left, int top,
                           int right, int bottom) {
  std::vector<double> weights;
  double sum = 0;
  for (int i = -kernel / 2; i <= kernel / 2; ++i) {
    weights.push_back(std::exp(-i * i / (2 * sigma * sigma)));
    sum += weights.back();
  }
  const auto mirror = [](int i) {
    i = ((i % 14) + 14) % 14;
    return i < 8 ? i : 14 - i;
  };
  std::vector<float> result = pixels;
  for (int y = top; y < bottom; ++y) {
    for (int x = left; x < right; ++x) {
      double value = 0;
      for (int dy = -kernel / 2; dy <= kernel / 2; ++dy) {
        for (int dx = -kernel / 2; dx <= kernel / 2; ++dx) {
          value += weights[static_cast<size_t>(dy + kernel / 2)] *
                   weights[static_cast<size_t>(dx + kernel / 2)] *
                   pixels[static_cast<size_t>(mirror(y + dy) * 8 + mirror(x + dx))];
        }
      }
      result[static_cast<size_t>(y * 8 + x)] = static_cast<float>(value / sum / sum);
    }
  }
  return result;
}

TEST(FaceBlur, LeavesAPictureWithoutFacesAlone) {
  EXPECT_THAT(Blur(Ramp(64), {{0, 1, 0.69F, 0, 0, 1, 1}, {-1, 1, 0.9F, 0, 0, 1, 1}}), Are(Ramp(64)));
  EXPECT_THAT(Blur(Ramp(64), {{0, 1, 0.9F, 0, 0, 1, 1}}, {{"gaussian_blur_kernel_size", "1"}}),
              Are(Ramp(64)));
  // Empty boxes, and boxes beside the picture.
  EXPECT_THAT(Blur(Ramp(64), {{0, 1, 0.9F, 0.5F, 0, 0.5F, 1}, {0, 1, 0.9F, 2, 2, 3, 3}}), Are(Ramp(64)));
}

TEST(FaceBlur, Blurs) {
  std::vector<float> point(64, 0);
  point[3 * 8 + 3] = 100;
  const auto blurred = Blur(point, {{0, 1, 0.9F, 0.125F, 0.125F, 0.75F, 0.75F}});
  std::vector<float> expected(64, 0);
  expected[3 * 8 + 3] = 25;
  for (const size_t at : {2 * 8 + 3, 4 * 8 + 3, 3 * 8 + 2, 3 * 8 + 4}) expected[at] = 12.5F;
  for (const size_t at : {2 * 8 + 2, 2 * 8 + 4, 4 * 8 + 2, 4 * 8 + 4}) expected[at] = 6.25F;
  EXPECT_THAT(blurred, Are(expected));
}

TEST(FaceBlur, PixelsAroundTheBoxTakePart) {
  std::vector<float> halves(64, 0);
  for (size_t i = 0; i < 64; ++i) halves[i] = i % 8 >= 4 ? 100 : 0;
  const auto blurred = Blur(halves, {{0, 1, 0.9F, 0.5F, 0.25F, 0.75F, 0.75F}});
  auto expected = halves;
  for (const size_t row : {2, 3, 4, 5}) expected[row * 8 + 4] = 75;
  EXPECT_THAT(blurred, Are(expected));
}

TEST(FaceBlur, UsesTheSigmaOfTheKernelAndMirrorsThePicture) {
  std::vector<float> pixels(64);
  std::mt19937 random(7);
  for (float& pixel : pixels) pixel = static_cast<float>(random() % 256);
  // The box reaches over the left and upper edges. 11 has sigma 2.
  EXPECT_THAT(Blur(pixels, {{0, 1, 0.9F, -0.5F, -0.25F, 0.5F, 0.75F}}, {{"gaussian_blur_kernel_size", "11"}}),
              Pointwise(FloatNear(1e-3F), Blurred(pixels, 11, 2, 0, 0, 4, 6)));
}

TEST(FaceBlur, BlursOverlapsAgain) {
  std::vector<float> point(64, 0);
  point[3 * 8 + 3] = 100;
  const std::vector<float> whole = {0, 1, 0.9F, 0, 0, 1, 1};
  const auto twice = Blur(point, {whole, whole});
  EXPECT_NEAR(twice[3 * 8 + 3], 100.0F * 6 * 6 / 256, 1e-3);
}

TEST(FaceBlur, ResizesAndChangesTheLayout) {
  std::vector<float> planes;
  for (const float value : {1.0F, 2.0F, 3.0F}) planes.insert(planes.end(), 64, value);
  const auto node = Node("face_blur", With(kBlur, {{"original_image_layout", "NCHW"},
                                                   {"target_image_layout", "NCHW"},
                                                   {"target_image_width", "1"},
                                                   {"target_image_height", "2"}}));
  EXPECT_THAT(node->Outputs()->at(0).shape, ElementsAre(1, 3, 2, 1));
  EXPECT_THAT(node->Inputs()->at(1).shape, ElementsAre(1, 1, 200, 7));
  const auto outputs =
      Answer(*node, {Floats("image", {1, 3, 8, 8}, planes), Detections({{0, 1, 0.9F, 0, 0, 1, 1}}, 200)});
  EXPECT_THAT(Values<float>(outputs[0]), Are({1, 1, 2, 2, 3, 3}));
}

TEST(FaceBlur, DoesNotChangeItsInput) {
  for (const char* layout : {"NHWC", "NCHW"}) {
    const Tensor image =
        Floats("image", layout == std::string("NHWC") ? Shape{1, 8, 8, 3} : Shape{1, 3, 8, 8}, Ramp(192));
    Answer(*Node("face_blur", With(kBlur, {{"original_image_layout", layout}})),
           {image, Detections({{0, 1, 0.9F, 0, 0, 1, 1}}, 200)});
    EXPECT_EQ(Values<float>(image), Ramp(192)) << layout;
  }
}

TEST(FaceBlur, RefusesBadParamsAndInputs) {
  for (const char* size : {"-", "0", "2", "-3", "40001"}) {
    ExpectRefused("face_blur", With(kBlur, {{"gaussian_blur_kernel_size", size}}),
                  "param 'gaussian_blur_kernel_size' is ");
  }
  const auto node = Node("face_blur", kBlur);
  ExpectFails(*node, {Gray(8, 8, Ramp(64)), Detections({{0, 1, 0.9F, 0, 0, 1, 1}})},
              "input 'detection': expected FP32 [1,1,200,7]");
  ExpectFails(*node, {Gray(8, 8, Ramp(64)), Detections({{0, 1, 0.9F, kNan, 0, 1, 1}}, 200)},
              "input 'detection': the box 0 has NaN");
}

// ------------------------------------------------------------------------------------------- horizontal_ocr

const Params kHorizontal = With(kDetection, {{"confidence_threshold", "0.3"}});

Tensor TextBoxes(const std::vector<std::vector<float>>& rows) {
  std::vector<float> values;
  for (const auto& row : rows) values.insert(values.end(), row.begin(), row.end());
  return Floats("boxes", {static_cast<int64_t>(rows.size()), 5}, values);
}

TEST(HorizontalOcr, CutsTheBoxesOut) {
  const auto outputs =
      Answer(*Node("horizontal_ocr", kHorizontal),
             {Squares(), TextBoxes({{0.7F, 1.2F, 2.9F, 3.9F, 0.8F},
                                    {3, 0, 1, 1, 0.25F},  // of too low a score to be looked at
                                    {2, 2, 4, 4, 0.3F}})});
  EXPECT_THAT(outputs[0].shape, ElementsAre(2, 1, 1, 1, 3));
  EXPECT_THAT(Values<int32_t>(outputs[1]), ElementsAre(0, 1, 2, 2, 2, 2, 2, 2));
  EXPECT_THAT(FirstChannel(outputs[0]), Are({(4 + 5 + 8 + 9) / 4.0F, (10 + 11 + 14 + 15) / 4.0F}));
  EXPECT_THAT(Values<float>(outputs[2]), ElementsAre(0.8F, 0.3F));
}

TEST(HorizontalOcr, TakesTheFirstBoxes) {
  const auto outputs =
      Answer(*Node("horizontal_ocr",
                   With(kHorizontal, {{"max_output_batch", "2"}, {"convert_to_gray_scale", "true"}})),
             {Squares(), TextBoxes({{0, 0, 1, 1, 0.4F}, {1, 0, 2, 1, 0.5F}, {2, 0, 3, 1, 0.9F}})});
  EXPECT_THAT(Values<float>(outputs[2]), ElementsAre(0.4F, 0.5F));
  EXPECT_THAT(Values<float>(outputs[0]), Are({0, 1}));
}

TEST(HorizontalOcr, CutsBoxesAtThePicturesEdge) {
  const auto outputs =
      Answer(*Node("horizontal_ocr", kHorizontal), {Squares(), TextBoxes({{3, 3, 9, 9, 0.8F}})});
  EXPECT_THAT(Values<int32_t>(outputs[1]), ElementsAre(3, 3, 1, 1));
  EXPECT_THAT(FirstChannel(outputs[0]), Are({15}));
}

TEST(HorizontalOcr, NoBoxesGiveEmptyTensors) {
  const auto outputs = Answer(*Node("horizontal_ocr", kHorizontal), {Squares(), TextBoxes({})});
  EXPECT_THAT(outputs[0].shape, ElementsAre(0, 1, 1, 1, 3));
  EXPECT_THAT(outputs[1].shape, ElementsAre(0, 1, 4));
  EXPECT_THAT(outputs[2].shape, ElementsAre(0, 1, 1));
}

TEST(HorizontalOcr, FailsForAnEmptyBoxUnlessItSkips) {
  const std::vector<std::vector<float>> bad = {{2, 0, 2, 1, 0.8F},
                                               {2, 0, 1, 1, 0.8F},
                                               {0, 0, 0.5F, 1, 0.8F},
                                               {9, 9, 12, 12, 0.8F},
                                               {kNan, 0, 1, 1, 0.8F}};
  for (const auto& row : bad) {
    ExpectFails(*Node("horizontal_ocr", kHorizontal), {Squares(), TextBoxes({row})},
                "input 'boxes': the box 0 has no pixel in the picture");
  }
  const auto outputs = Answer(*Node("horizontal_ocr", With(kHorizontal, {{"skip_empty_boxes", "true"}})),
                              {Squares(), TextBoxes(bad)});
  EXPECT_EQ(outputs[0].shape[0], 0);
}

// ------------------------------------------------------------------------------------------------- east_ocr

// The coordinates of the texts in a picture of the contract's size, with one text in a cell.
struct East {
  int64_t width = 1920;
  int64_t height = 1024;
  Params params = {{"original_image_width", "1920"},  {"original_image_height", "1024"},
                   {"target_image_width", "8"},       {"target_image_height", "8"},
                   {"original_image_layout", "NHWC"}, {"target_image_layout", "NHWC"},
                   {"confidence_threshold", "0.9"},   {"convert_to_gray_scale", "true"}};
  struct Cell {
    int64_t x;
    int64_t y;
    std::vector<float> geometry;
    float score = 0.95F;
  };
  // Empty: black.
  std::vector<float> pixels;

  std::vector<Tensor> Inputs(const std::vector<Cell>& cells) const {
    const int64_t across = width / 4;
    const auto count = static_cast<size_t>(across * (height / 4));
    std::vector<float> scores(count, 0);
    std::vector<float> geometry(count * 5, 0);
    for (const Cell& cell : cells) {
      const auto at = static_cast<size_t>(cell.y * across + cell.x);
      scores[at] = cell.score;
      std::ranges::copy(cell.geometry, geometry.begin() + static_cast<std::ptrdiff_t>(at * 5));
    }
    const Tensor image = pixels.empty()
                             ? Floats("image", {1, height, width, 3},
                                      std::vector<float>(static_cast<size_t>(width * height * 3), 0))
                             : Gray(height, width, pixels);
    return {image, Floats("scores", {1, height / 4, across, 1}, scores),
            Floats("geometry", {1, height / 4, across, 5}, geometry)};
  }
  Outputs Find(const std::vector<Cell>& cells, const Params& more = {}) const {
    return Answer(*Node("east_ocr", With(params, more)), Inputs(cells));
  }
  std::vector<int32_t> Boxes(const std::vector<Cell>& cells, const Params& more = {}) const {
    return Values<int32_t>(Find(cells, more)[1]);
  }
};

constexpr float Radians(float degrees) { return degrees * 3.14159265F / 180; }

TEST(EastOcr, DecodesTheGeometry) {
  const East east;
  const Params wider = {{"box_width_adjustment", "0.1"}};
  const East::Cell flat{10, 5, {4, 20, 6, 30, 0}};
  EXPECT_THAT(east.Boxes({flat}), ElementsAre(10, 16, 50, 10));
  EXPECT_THAT(east.Boxes({flat}, wider), ElementsAre(5, 16, 60, 10));
  EXPECT_THAT(east.Boxes({flat}, {{"box_height_adjustment", "0.1"}}), ElementsAre(10, 15, 50, 12));
  EXPECT_THAT(east.Boxes({{50, 50, {10, 60, 10, 60, Radians(30)}}}), ElementsAre(143, 162, 113, 77));
  EXPECT_THAT(east.Boxes({{50, 50, {10, 60, 10, 60, Radians(-15)}}}, wider), ElementsAre(128, 175, 145, 50));
  EXPECT_THAT(east.Boxes({{0, 0, {5, 10, 5, 40, 0}}}, wider), ElementsAre(0, 0, 11, 5));
}

TEST(EastOcr, SuppressesOverlapsAndSortsByScore) {
  const East east;
  // Texts of 100x20 at x 0, 12, 52 and 56.
  const auto cells = [](std::vector<float> scores) {
    std::vector<East::Cell> all;
    for (const auto& [x, score] :
         {std::pair{0, scores[0]}, {3, scores[1]}, {13, scores[2]}, {14, scores[3]}}) {
      all.push_back({x, 10, {10, 100, 10, 0, 0}, score});
    }
    return all;
  };
  const auto outputs = east.Find(cells({0.95F, 0.94F, 0.93F, 0.92F}));
  EXPECT_THAT(Values<int32_t>(outputs[1]), ElementsAre(0, 30, 100, 20, 56, 30, 100, 20));
  EXPECT_THAT(Values<float>(outputs[2]), ElementsAre(0.95F, 0.92F));
  EXPECT_THAT(Values<float>(east.Find(cells({0.91F, 0.92F, 0.93F, 0.94F}), {{"overlap_threshold", "1"}})[2]),
              ElementsAre(0.94F, 0.93F, 0.92F, 0.91F));
  EXPECT_THAT(Values<float>(east.Find(cells({0.91F, 0.92F, 0.93F, 0.94F}),
                                      {{"overlap_threshold", "1"}, {"max_output_batch", "1"}})[2]),
              ElementsAre(0.94F));
  // A score of the threshold counts; one below it, or NaN, does not.
  EXPECT_THAT(Values<float>(east.Find(cells({0.9F, 0.89F, kNan, 0}))[2]), ElementsAre(0.9F));
}

// A small picture: a bright bar in its middle, rotated, around a text of 24x8.
struct Tilted : East {
  explicit Tilted(float degrees) {
    width = 64;
    height = 64;
    params = With(params, {{"original_image_width", "64"},
                           {"original_image_height", "64"},
                           {"target_image_width", "24"},
                           {"target_image_height", "8"}});
    const float a = Radians(degrees);
    for (int y = 0; y < 64; ++y) {
      for (int x = 0; x < 64; ++x) {
        // The distances from the middle along the text and across it; y points down.
        const float along =
            std::cos(a) * static_cast<float>(x - 32) - std::sin(a) * static_cast<float>(y - 32);
        const float across =
            std::sin(a) * static_cast<float>(x - 32) + std::cos(a) * static_cast<float>(y - 32);
        pixels.push_back(std::abs(along) <= 16 && std::abs(across) <= 6 ? 255.0F : 0.0F);
      }
    }
  }
};

float Brightness(const Tensor& piece) {
  float sum = 0;
  const auto values = Values<float>(piece);
  for (const float value : values) sum += value;
  return sum / static_cast<float>(values.size());
}

TEST(EastOcr, RotatesTexts) {
  for (const float degrees : {40.0F, -40.0F}) {
    const Tilted east(degrees);
    const std::vector<East::Cell> cells = {{8, 8, {4, 12, 4, 12, Radians(degrees)}}};
    const auto upright = east.Find(cells);
    EXPECT_NEAR(Brightness(upright[0]), 255, 10) << degrees;
    const auto tilted = east.Find(cells, {{"rotation_angle_threshold", "40"}});
    EXPECT_EQ(Values<int32_t>(tilted[1]), Values<int32_t>(upright[1]));
    EXPECT_LT(Brightness(tilted[0]), Brightness(upright[0]) - 50) << degrees;
  }
}

TEST(EastOcr, KeepsTheRowsThereAreAtThePicturesEdge) {
  const Tilted east(0);
  // Only four rows of the box are in the picture, but its text is 40 high.
  const auto outputs = east.Find({{8, 0, {36, 12, 4, 12, Radians(25)}}});
  EXPECT_EQ(outputs[0].shape[0], 1);
}

TEST(EastOcr, FailsForAnEmptyBoxUnlessItSkips) {
  const Tilted east(0);
  const std::vector<East::Cell> bad = {
      {0, 1, {0, 0, 0, 0, 0}},
      {1, 1, {-5, 10, -5, 10, 0}},
      {2, 1, {5, 5, 5, 5, kNan}},
      {3, 1, {5, -400, 5, 800, 0}},
      {4, 1, {1e30F, 1e30F, -1e30F, 1e30F, std::numeric_limits<float>::infinity()}}};
  for (const East::Cell& cell : bad) {
    if (cell.x == 1) continue;  // its corners swap places, so it has pixels
    ExpectFails(*Node("east_ocr", east.params), east.Inputs({cell}),
                "input 'geometry': the box " + std::to_string(16 + cell.x) + " has no pixel in the picture");
  }
  auto all = bad;
  all.push_back({8, 8, {4, 12, 4, 12, 0}, 0.97F});
  const auto outputs = east.Find(all, {{"skip_empty_boxes", "true"}});
  EXPECT_EQ(Values<float>(outputs[2])[0], 0.97F);
}

TEST(EastOcr, DescribesItself) {
  const auto node = Node("east_ocr", East().params);
  const auto inputs = *node->Inputs();
  EXPECT_THAT(inputs[0].shape, ElementsAre(1, 1024, 1920, 3));
  EXPECT_EQ(inputs[1].name, "scores");
  EXPECT_THAT(inputs[1].shape, ElementsAre(1, 256, 480, 1));
  EXPECT_EQ(inputs[2].name, "geometry");
  EXPECT_THAT(inputs[2].shape, ElementsAre(1, 256, 480, 5));
  const auto outputs = *node->Outputs();
  EXPECT_EQ(outputs[0].name, "text_images");
  EXPECT_THAT(outputs[0].shape, ElementsAre(-1, 1, 8, 8, 1));
  EXPECT_EQ(outputs[1].name, "text_coordinates");
  EXPECT_EQ(outputs[1].type, DataType::kInt32);
  EXPECT_EQ(outputs[2].name, "confidence_levels");
}

TEST(EastOcr, RefusesBadParams) {
  const auto refused = [](const char* key, const char* value) {
    ExpectRefused("east_ocr", With(East().params, {{key, value}}), "param '" + std::string(key) + "' is ");
  };
  refused("original_image_width", "1918");
  refused("overlap_threshold", "1.5");
  refused("box_width_adjustment", "-0.1");
  refused("box_height_adjustment", "inf");
  refused("rotation_angle_threshold", "-1");
}

// ------------------------------------------------------------------------------------------- hostile inputs

// Numbers that models should not give, among ordinary ones.
class Hostile {
 public:
  explicit Hostile(uint32_t seed) : random_(seed) {}
  std::vector<float> Numbers(size_t count, float most) {
    constexpr float kSpecial[] = {kNan,
                                  std::numeric_limits<float>::infinity(),
                                  -std::numeric_limits<float>::infinity(),
                                  -1,
                                  std::numeric_limits<float>::max(),
                                  std::numeric_limits<float>::lowest(),
                                  1e-40F,
                                  2147483648.0F,
                                  -2147483904.0F};
    std::vector<float> numbers(count);
    std::uniform_real_distribution<float> ordinary(-most / 4, most);
    for (float& number : numbers) {
      number = random_() % 8 == 0 ? kSpecial[random_() % std::size(kSpecial)] : ordinary(random_);
    }
    return numbers;
  }

 private:
  std::mt19937 random_;
};

// Executes with hostile inputs; the sanitizers look for faults of memory. Expects whole answers, or errors.
void Attack(const std::string& name, const Params& params,
            const std::function<std::vector<Tensor>(Hostile&)>& inputs) {
  size_t answered = 0;
  for (const char* skip : {"false", "true"}) {
    const auto node =
        Node(name,
             With(params,
                  {{"skip_empty_boxes", skip}, {"max_output_batch", "20"}, {"confidence_threshold", "0.1"}}));
    for (uint32_t seed = 0; seed < 60; ++seed) {
      Hostile hostile(seed);
      const auto outputs = node->Execute(inputs(hostile));
      if (!outputs.ok()) {
        EXPECT_EQ(outputs.status().fault(), Fault::kNodeLibraryExecutionFailed);
        continue;
      }
      ++answered;
      for (const Tensor& output : *outputs) EXPECT_LE(output.shape[0], 20);
    }
  }
  EXPECT_GE(answered, 20) << name;
}

TEST(HostileInputs, AreAnsweredOrRefused) {
  const Params small =
      With(kDetection,
           {{"original_image_width", "16"}, {"original_image_height", "8"}, {"target_image_width", "3"}});
  const auto picture = [](Hostile& hostile) {
    return Floats("image", {1, 8, 16, 3}, hostile.Numbers(8 * 16 * 3, 255));
  };
  Attack(kDetector, small, [&](Hostile& hostile) -> std::vector<Tensor> {
    auto rows = hostile.Numbers(30 * 7, 1.2F);
    for (size_t i = 0; i < rows.size(); i += 7) rows[i] = 0;
    return {picture(hostile), Floats("detection", {1, 1, 30, 7}, rows)};
  });
  Attack("face_blur", With(small, {{"gaussian_blur_kernel_size", "51"}}),
         [&](Hostile& hostile) -> std::vector<Tensor> {
           auto rows = hostile.Numbers(200 * 7, 1.2F);
           for (size_t i = 0; i < rows.size(); i += 7) {
             rows[i] = i % 14 == 0 ? 0 : -1;
             for (size_t corner = i + 3; corner < i + 7; ++corner) {
               if (std::isnan(rows[corner])) rows[corner] = 0;
             }
           }
           return {picture(hostile), Floats("detection", {1, 1, 200, 7}, rows)};
         });
  Attack("horizontal_ocr", small, [&](Hostile& hostile) -> std::vector<Tensor> {
    return {picture(hostile), Floats("boxes", {30, 5}, hostile.Numbers(30 * 5, 18))};
  });
  Attack("east_ocr", With(small, {{"box_width_adjustment", "0.5"}, {"rotation_angle_threshold", "1"}}),
         [&](Hostile& hostile) -> std::vector<Tensor> {
           return {picture(hostile), Floats("scores", {1, 2, 4, 1}, hostile.Numbers(8, 1)),
                   Floats("geometry", {1, 2, 4, 5}, hostile.Numbers(8 * 5, 9))};
         });
}

}  // namespace
}  // namespace braid
