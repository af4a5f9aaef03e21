#include "custom_nodes/boxes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace braid::custom_nodes {
namespace {

using ::testing::ElementsAre;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(Boxes, PixelsAreTruncatedTowardZero) {
  EXPECT_EQ(ToPixel(2.9F), 2);
  EXPECT_EQ(ToPixel(-2.9F), -2);
  EXPECT_EQ(ToPixel(kInfinity), int64_t{1} << 40);
  EXPECT_EQ(ToPixel(-1e30F), -(int64_t{1} << 40));
  EXPECT_EQ(ToPixel(kNan), std::nullopt);
}

TEST(Boxes, AGuardedCropMovesAndThenCuts) {
  EXPECT_EQ(GuardedCrop({60, 80, 240, 160}, 600, 400), (Box{60, 80, 240, 160}));
  // Its width stays when it moves.
  EXPECT_EQ(GuardedCrop({-12, 0, 72, 10}, 600, 400), (Box{0, 0, 72, 10}));
  EXPECT_EQ(GuardedCrop({540, 360, 120, 59}, 600, 400), (Box{540, 360, 60, 40}));
  EXPECT_TRUE(GuardedCrop({600, 0, 10, 10}, 600, 400).empty());
  EXPECT_TRUE(GuardedCrop({10, 10, 0, 10}, 600, 400).empty());
  const int64_t far = int64_t{1} << 40;
  EXPECT_EQ(GuardedCrop({-far, -far, 2 * far, 2 * far}, 600, 400), (Box{0, 0, 600, 400}));
}

TEST(Boxes, InsideIsTheIntersection) {
  EXPECT_EQ(Inside({-12, -5, 72, 10}, 600, 400), (Box{0, 0, 60, 5}));
  EXPECT_EQ(Inside({590, 390, 72, 72}, 600, 400), (Box{590, 390, 10, 10}));
  EXPECT_TRUE(Inside({-80, 0, 72, 10}, 600, 400).empty());
}

TEST(Boxes, DetectionsAreReadAsRows) {
  const auto read = [](const std::vector<float>& row) { return ReadDetection(row.data(), 0.7F, 600, 400); };
  const std::vector<float> row = {0, 1, 0.9F, 0.1F, 0.2F, 0.5F, 0.6F};
  const auto found = read(row);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->label, 1);
  EXPECT_EQ(found->box, (Box{60, 80, 240, 160}));
  EXPECT_THAT(found->corners, ElementsAre(0.1F, 0.2F, 0.5F, 0.6F));
  // Swapped corners give the same box.
  EXPECT_EQ(read({0, 1, 0.9F, 0.5F, 0.6F, 0.1F, 0.2F})->box, found->box);
  EXPECT_TRUE(read({0.9F, 1, 0.7F, 0, 0, 1, 1}));
  EXPECT_FALSE(read({0, 1, 0.69F, 0, 0, 1, 1}));
  EXPECT_FALSE(read({0, 1, kNan, 0, 0, 1, 1}));
  EXPECT_FALSE(read({-1, 1, 0.9F, 0, 0, 1, 1}));
  EXPECT_FALSE(read({kNan, 1, 0.9F, 0, 0, 1, 1}));
  EXPECT_EQ(read({0, 1, 0.9F, kNan, 0, 1, 1})->box, std::nullopt);
  EXPECT_EQ(read({0, kInfinity, 0.9F, 0, 0, 1, 1})->label, std::numeric_limits<int32_t>::max());
}

TEST(Boxes, OverlapsAreSuppressed) {
  const std::vector<Box> boxes = {{0, 0, 100, 20}, {10, 0, 100, 20}, {50, 0, 100, 20}, {54, 0, 100, 20}};
  const auto kept = [&](const std::vector<float>& scores, float overlap, size_t most = 100) {
    return SuppressOverlaps(boxes, scores, overlap, most);
  };
  EXPECT_THAT(kept({0.9F, 0.8F, 0.7F, 0.6F}, 0.3F), ElementsAre(0, 3));
  EXPECT_THAT(kept({0.9F, 0.8F, 0.7F, 0.6F}, 0.34F), ElementsAre(0, 2));
  EXPECT_THAT(kept({0.9F, 0.8F, 0.6F, 0.7F}, 0.34F), ElementsAre(0, 3));
  EXPECT_THAT(kept({0.6F, 0.7F, 0.8F, 0.9F}, 1), ElementsAre(3, 2, 1, 0));
  // Of equal scores the later box is first.
  EXPECT_THAT(kept({0.9F, 0.9F, 0.9F, 0.9F}, 1), ElementsAre(3, 2, 1, 0));
  EXPECT_THAT(kept({0.9F, 0.9F, 0.9F, 0.9F}, 1, 2), ElementsAre(3, 2));
  EXPECT_THAT(SuppressOverlaps({}, {}, 0, 1), ElementsAre());
}

}  // namespace
}  // namespace braid::custom_nodes
