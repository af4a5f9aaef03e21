// The nodes of examples/custom_nodes, run as a pipeline runs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/testing/places.h"
#include "pipeline/testing/node_calls.h"
#include "serving/faults.h"

namespace braid {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::FloatEq;
using testing::Floats;
using ::testing::HasSubstr;
using testing::OpenNode;
using ::testing::Pointwise;
using ::testing::StartsWith;
using testing::Values;
using Params = testing::NodeParams;

Result<std::shared_ptr<const CustomNodeCode>> Make(const std::string& name, Params params) {
  return OpenNode(std::string(test_places::kExampleNodes) + "/lib" + name + ".so", std::move(params));
}

std::shared_ptr<const CustomNodeCode> Node(const std::string& name, Params params = {}) {
  auto code = Make(name, std::move(params));
  EXPECT_TRUE(code.ok()) << code.status();
  return std::move(code).value();
}

// Expects CodeFor() to refuse a node's params.
void ExpectRefused(const std::string& name, Params params) {
  const auto code = Make(name, std::move(params));
  ASSERT_FALSE(code.ok());
  EXPECT_THAT(code.status().message(), HasSubstr("initialize returned 1"));
}

TEST(ExampleNodes, ArgmaxTellsTheBestOfEachRow) {
  const auto node = Node("argmax");
  EXPECT_THAT(node->Inputs()->at(0).shape, ElementsAre(-1, -1));
  EXPECT_EQ(node->Outputs()->at(0).type, DataType::kInt64);
  const auto outputs = node->Execute({Floats("scores", {2, 3}, {1, 5, 5, -3, -2, -1})});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_EQ(outputs->at(0).name, "best_index");
  EXPECT_THAT(outputs->at(0).shape, ElementsAre(2));
  EXPECT_THAT(Values<int64_t>(outputs->at(0)), ElementsAre(1, 2));
  EXPECT_THAT(Values<float>(outputs->at(1)), ElementsAre(5, -1));
  EXPECT_FALSE(node->Execute({Floats("scores", {3}, {1, 5, 5})}).ok());
  EXPECT_FALSE(node->Execute({}).ok());
}

TEST(ExampleNodes, MaxSelectorChoosesByItsParam) {
  const Tensor candidates = Floats("candidates", {3, 1, 2}, {9, 0, 4, 3, 6, 2});
  const auto choose = [&](Params params) {
    const auto outputs = Node("max_selector", std::move(params))->Execute({candidates});
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    EXPECT_THAT(outputs->at(0).shape, ElementsAre(1, 2));
    EXPECT_THAT(outputs->at(1).shape, ElementsAre(1, 1));
    std::vector<float> chosen = Values<float>(outputs->at(0));
    chosen.push_back(static_cast<float>(Values<int64_t>(outputs->at(1)).at(0)));
    return chosen;
  };
  EXPECT_THAT(choose({}), ElementsAre(9, 0, 0));
  EXPECT_THAT(choose({{"choose_by", "maximum"}}), ElementsAre(9, 0, 0));
  EXPECT_THAT(choose({{"choose_by", "minimum"}}), ElementsAre(4, 3, 1));
  EXPECT_THAT(choose({{"choose_by", "average"}}), ElementsAre(9, 0, 0));
  EXPECT_FALSE(Node("max_selector")->Execute({Floats("candidates", {0, 1, 2}, {})}).ok());
  EXPECT_THAT(Node("max_selector")->Inputs()->at(0).shape, ElementsAre(-1, 1, -1));
  ExpectRefused("max_selector", {{"choose_by", "luck"}});
}

TEST(ExampleNodes, ImageTransformResizesAndNormalises) {
  // One row of two pixels.
  const Tensor image = Floats("image", {1, 1, 2, 3}, {0, 10, 20, 100, 110, 120});
  const auto same = Node("image_transform")->Execute({image});
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_THAT(same->at(0).shape, ElementsAre(1, 1, 2, 3));
  EXPECT_THAT(Values<float>(same->at(0)), ElementsAre(0, 10, 20, 100, 110, 120));

  const auto wide =
      Node("image_transform", {{"target_width", "4"}, {"target_height", "1"}})->Execute({image});
  ASSERT_TRUE(wide.ok()) << wide.status();
  EXPECT_THAT(wide->at(0).shape, ElementsAre(1, 1, 4, 3));
  EXPECT_THAT(Values<float>(wide->at(0)),
              Pointwise(FloatEq(), std::vector<float>({0, 10, 20, 25, 35, 45, 75, 85, 95, 100, 110, 120})));

  const auto normal =
      Node("image_transform",
           {{"mean", "10,20,30"}, {"scale", "10"}, {"swap_colors", "true"}, {"layout", "NCHW"}})
          ->Execute({image});
  ASSERT_TRUE(normal.ok()) << normal.status();
  EXPECT_THAT(normal->at(0).shape, ElementsAre(1, 3, 1, 2));
  EXPECT_THAT(Values<float>(normal->at(0)), ElementsAre(1, 11, -1, 9, -3, 7));
}

TEST(ExampleNodes, ImageTransformCropsTheMiddle) {
  const auto node =
      Node("image_transform", {{"target_width", "2"}, {"target_height", "2"}, {"center_crop", "true"}});
  EXPECT_THAT(node->Outputs()->at(0).shape, ElementsAre(1, 2, 2, -1));
  const auto outputs = node->Execute({Floats("image", {1, 2, 4, 1}, {0, 1, 2, 3, 4, 5, 6, 7})});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT(Values<float>(outputs->at(0)), ElementsAre(1, 2, 5, 6));
}

TEST(ExampleNodes, ImageTransformRefusesWhatItCannotDo) {
  ExpectRefused("image_transform", {{"target_width", "wide"}});
  ExpectRefused("image_transform", {{"target_width", "-1"}});
  ExpectRefused("image_transform", {{"scale", "0"}});
  ExpectRefused("image_transform", {{"layout", "HWC"}});
  ExpectRefused("image_transform", {{"center_crop", "true"}});
  ExpectRefused("image_transform", {{"swap_colors", "yes"}});
  EXPECT_FALSE(Node("image_transform")->Execute({Floats("image", {1, 1, 1, 2}, {0, 0})}).ok());
  EXPECT_FALSE(
      Node("image_transform", {{"mean", "1,2"}})->Execute({Floats("image", {1, 1, 1, 3}, {0, 0, 0})}).ok());
}

class Splitter : public ::testing::Test {
 protected:
  // A picture of four by two with one number in each quarter.
  static Tensor Picture() { return Floats("image", {1, 2, 4, 1}, {1, 1, 2, 2, 3, 3, 4, 4}); }
  static Tensor Detections(const std::vector<float>& rows) {
    return Floats("detections", {1, 1, static_cast<int64_t>(rows.size() / 7), 7}, rows);
  }
  static std::vector<Tensor> Split(const std::vector<float>& rows, Params more = {}) {
    Params params = {{"crop_width", "1"}, {"crop_height", "1"}};
    params.insert(params.end(), more.begin(), more.end());
    auto outputs = Node("detection_splitter", params)->Execute({Picture(), Detections(rows)});
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    return std::move(outputs).value();
  }
  // Upper right, lower left, and one of low confidence.
  const std::vector<float> rows_ = {0, 5, 0.9F, 0.5F, 0, 1, 0.5F, 0, 6, 0.8F, 0,  0.5F, 0.5F, 1,
                                    0, 5, 0.4F, 0,    0, 1, 1,    0, 5, 0.7F, -1, -1,   0.5F, 0.5F};
};

TEST_F(Splitter, CutsOutEachDetection) {
  const auto outputs = Split(rows_);
  ASSERT_EQ(outputs.size(), 4u);
  EXPECT_EQ(outputs[0].name, "crops");
  EXPECT_THAT(outputs[0].shape, ElementsAre(3, 1, 1, 1, 1));
  EXPECT_THAT(Values<float>(outputs[0]), ElementsAre(2, 3, 1));
  EXPECT_THAT(outputs[1].shape, ElementsAre(3, 1, 4));
  EXPECT_THAT(Values<float>(outputs[1]), ElementsAre(0.5, 0, 1, 0.5, 0, 0.5, 0.5, 1, -1, -1, 0.5, 0.5));
  EXPECT_THAT(outputs[2].shape, ElementsAre(3, 1, 1));
  EXPECT_THAT(Values<float>(outputs[2]), ElementsAre(0.9F, 0.8F, 0.7F));
  EXPECT_THAT(Values<int32_t>(outputs[3]), ElementsAre(5, 6, 5));
}

TEST_F(Splitter, LeavesOutWhatItsParamsSay) {
  EXPECT_EQ(Split(rows_, {{"confidence_threshold", "0.3"}})[0].shape[0], 4);
  EXPECT_THAT(Values<float>(Split(rows_, {{"label", "6"}})[0]), ElementsAre(3));
  EXPECT_THAT(Values<float>(Split(rows_, {{"max_detections", "1"}})[0]), ElementsAre(2));
}

TEST_F(Splitter, GivesNothingWhenNothingWasFound) {
  for (const std::vector<float>& rows :
       {std::vector<float>(), std::vector<float>({-1, 1, 1, 0, 0, 1, 1}),
        std::vector<float>({0, 1, 1, 1, 0, 0, 1}), std::vector<float>({0, 1, NAN, NAN, NAN, NAN, NAN})}) {
    const auto outputs = Split(rows);
    EXPECT_THAT(outputs[0].shape, ElementsAre(0, 1, 1, 1, 1));
    EXPECT_THAT(outputs[1].shape, ElementsAre(0, 1, 4));
    EXPECT_EQ(outputs[0].data.size(), 0u);
  }
}

TEST_F(Splitter, NeedsTheSizeOfThePieces) {
  ExpectRefused("detection_splitter", {{"crop_width", "4"}});
  const auto node = Node("detection_splitter", {{"crop_width", "4"}, {"crop_height", "3"}});
  EXPECT_THAT(node->Outputs()->at(0).shape, ElementsAre(-1, 1, 3, 4, -1));
  EXPECT_THAT(node->Execute({Picture()}).status().message(),
              StartsWith(FaultError(Fault::kNodeLibraryExecutionFailed).message()));
}

TEST(ExampleNodes, TextPagePadsToMultiplesOf32) {
  const auto outputs = Node("text_page")->Execute({Floats("image", {1, 1, 2, 3}, {1, 2, 3, 4, 5, 6})});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT(outputs->at(0).shape, ElementsAre(1, 32, 32, 3));
  const std::vector<float> page = Values<float>(outputs->at(0));
  EXPECT_THAT(std::vector(page.begin(), page.begin() + 9), ElementsAre(1, 2, 3, 4, 5, 6, 4, 5, 6));
  EXPECT_THAT(std::vector(page.end() - 3, page.end()), ElementsAre(4, 5, 6));
}

TEST(ExampleNodes, TextPageScalesDownWhatIsTooLarge) {
  const auto outputs = Node("text_page", {{"longest", "64"}})
                           ->Execute({Floats("image", {1, 64, 128, 3}, std::vector<float>(64 * 128 * 3, 7))});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT(outputs->at(0).shape, ElementsAre(1, 32, 64, 3));
  EXPECT_THAT(Values<float>(outputs->at(0)), Each(FloatEq(7)));
  ExpectRefused("text_page", {{"longest", "31"}});
  EXPECT_FALSE(Node("text_page")->Execute({Floats("image", {1, 0, 4, 3}, {})}).ok());
}

// A page of 64 by 32 with marks on its map, each with a confidence.
class TextLines : public ::testing::Test {
 protected:
  void Mark(int left, int top, int width, int height, float sure) {
    for (int y = top; y < top + height; ++y) {
      for (int x = left; x < left + width; ++x) map_[static_cast<size_t>(y * kWidth + x)] = sure;
    }
  }
  std::vector<Tensor> Cut(Params params = {}) const {
    std::vector<float> page(static_cast<size_t>(kHeight * kWidth * 3), 9);
    auto outputs = Node("text_lines", std::move(params))
                       ->Execute({Floats("page", {1, kHeight, kWidth, 3}, page),
                                  Floats("map", {1, 1, kHeight, kWidth}, map_)});
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    return outputs.ok() ? std::move(outputs).value() : std::vector<Tensor>(2);
  }

  static constexpr int kWidth = 64;
  static constexpr int kHeight = 32;
  std::vector<float> map_ = std::vector<float>(static_cast<size_t>(kHeight * kWidth), 0);
};

TEST_F(TextLines, CutsLinesInTheOrderOfReading) {
  Mark(40, 3, 12, 4, 0.9F);
  Mark(4, 4, 24, 4, 0.9F);  // begins below the one to its right, in the same row
  Mark(4, 20, 12, 4, 0.9F);
  Mark(30, 20, 12, 3, 0.9F);  // too low
  Mark(50, 20, 12, 4, 0.4F);  // text, but with low confidence
  const std::vector<Tensor> outputs = Cut({{"growth", "0"}, {"height", "4"}});
  EXPECT_THAT(outputs.at(1).shape, ElementsAre(3, 1, 4));
  EXPECT_THAT(Values<float>(outputs.at(1)), ElementsAre(4, 4, 28, 8, 40, 3, 52, 7, 4, 20, 16, 24));
  EXPECT_THAT(outputs.at(0).shape, ElementsAre(3, 1, 4, 24, 3));
  // The second line is twelve pixels long; the rest is padding.
  const std::vector<float> lines = Values<float>(outputs.at(0));
  const auto second = lines.begin() + 4 * 24 * 3;
  EXPECT_THAT(std::vector(second, second + 12 * 3), Each(FloatEq(9)));
  EXPECT_THAT(std::vector(second + 12 * 3, second + 24 * 3), Each(FloatEq(127.5F)));
}

TEST_F(TextLines, GrowsBoxesByAreaOverGirthWithinThePage) {
  Mark(2, 10, 24, 8, 0.9F);
  // 1.6 * 192 / 64 = 4.8
  EXPECT_THAT(Values<float>(Cut().at(1)), ElementsAre(0, 5, 31, 23));
}

TEST_F(TextLines, GivesNothingForAPageWithoutText) {
  EXPECT_THAT(Cut().at(1).shape, ElementsAre(0, 1, 4));
  ExpectRefused("text_lines", {{"height", "0"}});
  ExpectRefused("text_lines", {{"growth", "-1"}});
}

class TextDecoder : public ::testing::Test {
 protected:
  TextDecoder() : path_(::testing::TempDir() + "characters.txt") {
    std::ofstream(path_) << "\na\n\u00e4\n \n";
  }
  ~TextDecoder() override { std::filesystem::remove(path_); }

  // Empty when the node fails.
  std::string Decode(const std::vector<int32_t>& characters, Params more = {}) const {
    Params params = {{"characters", path_}};
    params.insert(params.end(), more.begin(), more.end());
    const Tensor input{"characters",
                       DataType::kInt32,
                       {1, static_cast<int64_t>(characters.size())},
                       CopyToHeap(std::as_bytes(std::span(characters)))};
    const auto outputs = Node("text_decoder", std::move(params))->Execute({input});
    if (!outputs.ok()) return "";
    const std::vector<char> text = Values<char>(outputs->at(0));
    return {text.begin(), text.end()};
  }

  const std::string path_;
};

TEST_F(TextDecoder, CountsWhatStandsSeveralTimesOnce) {
  using namespace std::string_literals;
  EXPECT_EQ(Decode({0, 1, 1, 0, 1, 3, 3, 2, 0}, {{"size", "8"}}), "aa \u00e4\0\0\0"s);
  EXPECT_EQ(Decode({}, {{"size", "2"}}), "\0\0"s);
  // Two bytes of a character stay together.
  EXPECT_EQ(Decode({1, 2}, {{"size", "2"}}), "a\0"s);
}

TEST_F(TextDecoder, RefusesWhatItHasNoCharacterFor) {
  EXPECT_EQ(Decode({4}), "");
  EXPECT_EQ(Decode({-1}), "");
  ExpectRefused("text_decoder", {});
  ExpectRefused("text_decoder", {{"characters", "/no/such/file"}});
  ExpectRefused("text_decoder", {{"characters", path_}, {"size", "0"}});
}

}  // namespace
}  // namespace braid
