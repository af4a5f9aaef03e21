#include "images/image_target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serving/faults.h"

namespace braid {
namespace {

using ::testing::ElementsAre;

TensorSpec Spec(Shape shape, std::string layout = "", std::vector<DimensionRange> ranges = {}) {
  TensorSpec spec;
  spec.name = "b";
  spec.type = DataType::kUint8;
  spec.shape = std::move(shape);
  spec.layout = std::move(layout);
  spec.ranges = std::move(ranges);
  return spec;
}

bool Good(Shape shape, std::string layout) {
  return ImageTargetOf(Spec(std::move(shape), std::move(layout))).ok();
}

Status Error(Shape shape, std::string layout) {
  return ImageTargetOf(Spec(std::move(shape), std::move(layout))).status();
}

TEST(ImageTarget, LayoutsThatMayBeNhwcAreGood) {
  for (const char* layout :
       {"NHWC", "nhwc", "[N,H,W,C]", "N...", "...", "N...C", "...HWC", "?HWC", "N???", ""}) {
    EXPECT_TRUE(Good({1, 224, 224, 3}, layout)) << layout;
  }
  for (const char* layout : {"N?HWC", "NHWC", "N...", "...", "N...HWC", "NDHWC", ""}) {
    EXPECT_TRUE(Good({-1, 1, 224, 224, 3}, layout)) << layout;
  }
}

TEST(ImageTarget, OtherLayoutsAreRefused) {
  for (const char* layout : {"NCHW", "N...W", "NC...", "HWC", "CN...", "NHWCX", "N...HWCXY", "NHCW"}) {
    EXPECT_EQ(Error({1, 224, 224, 3}, layout),
              FaultError(Fault::kUnsupportedLayout, "layout: " + std::string(layout) + "; input name: b"));
  }
}

TEST(ImageTarget, WithoutALayoutTheDimensionsSay) {
  EXPECT_EQ(Error({1, 3, 224, 224}, ""),
            FaultError(Fault::kUnsupportedLayout, "shape: [1,3,224,224]; input name: b"));
  EXPECT_EQ(Error({1, 1, 224, 224}, "N...").message(),
            FaultError(Fault::kUnsupportedLayout, "shape: [1,1,224,224]; input name: b").message());
  EXPECT_TRUE(Good({1, 3, 224, 3}, ""));
  EXPECT_TRUE(Good({-1, -1, -1, -1}, ""));
}

TEST(ImageTarget, ChannelsAreThreeOrOne) {
  EXPECT_EQ(ImageTargetOf(Spec({1, 2, 2, 3}))->channels(), 3);
  EXPECT_EQ(ImageTargetOf(Spec({1, 2, 2, 1}))->channels(), 1);
  EXPECT_EQ(ImageTargetOf(Spec({1, 2, 2, -1}))->channels(), 3);
  EXPECT_EQ(ImageTargetOf(Spec({1, 2, 2, -1}, "", {{1, 1}, {2, 2}, {2, 2}, {1, 2}}))->channels(), 1);
  for (int64_t channels : {0, 2, 4, 224}) {
    EXPECT_EQ(Error({1, 5, 5, channels}, "NHWC"),
              FaultError(Fault::kInvalidNoOfChannels,
                         "Expected: " + std::to_string(channels) + "; Actual: 3; input name: b"));
  }
}

TEST(ImageTarget, SizesComeAsNearAsTheyMay) {
  const auto fixed = ImageTargetOf(Spec({1, 4, 5, 3}));
  EXPECT_EQ(fixed->SizeFor({100, 100}), (ImageSize{5, 4}));
  const auto free = ImageTargetOf(Spec({1, -1, -1, 3}));
  EXPECT_EQ(free->SizeFor({100, 50}), (ImageSize{100, 50}));
  const auto ranges = ImageTargetOf(Spec({1, -1, -1, 3}, "NHWC", {{1, 1}, {10, 20}, {30, -1}, {3, 3}}));
  EXPECT_EQ(ranges->SizeFor({5, 5}), (ImageSize{30, 10}));
  EXPECT_EQ(ranges->SizeFor({50, 15}), (ImageSize{50, 15}));
  EXPECT_EQ(ranges->SizeFor({50, 25}), (ImageSize{50, 20}));
  const auto one = ImageTargetOf(Spec({1, -1, 5, 3}));
  EXPECT_EQ(one->SizeFor({100, 50}), (ImageSize{5, 50}));
}

TEST(ImageTarget, OfRankFiveHasABatchForEachImage) {
  const auto target = ImageTargetOf(Spec({-1, 1, 4, 5, 3}));
  EXPECT_THAT(target->ShapeOf(7, {5, 4}), ElementsAre(7, 1, 4, 5, 3));
  EXPECT_THAT(ImageTargetOf(Spec({-1, 4, 5, 1}))->ShapeOf(7, {5, 4}), ElementsAre(7, 4, 5, 1));
}

}  // namespace
}  // namespace braid
