#include "base/nearest_name.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

TEST(NearestName, OffersTheNearestButNeverTheWordItself) {
  NearestName nearest("words");
  nearest.Offer("words");
  EXPECT_EQ(nearest.name(), "");
  nearest.Offer("swords!");
  nearest.Offer("Word");
  nearest.Offer("wordy");
  EXPECT_EQ(nearest.name(), "Word");
  NearestName far("words");
  far.Offer("sentences");
  EXPECT_EQ(far.name(), "");
}

}  // namespace
}  // namespace braid
