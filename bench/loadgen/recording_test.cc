#include "recording.h"

#include <gtest/gtest.h>

namespace braid::bench {
namespace {

TEST(Recording, CountsRequestsWithinTheWindowAndThePartsOfOthers) {
  Window window;
  Recording recording;
  recording.Success(window, 0, 500, 1, 1, 1);  // before the window is known
  window.end_ns = 5000;
  window.begin_ns = 1000;
  recording.Success(window, 500, 1500, 1, 1, 1);
  recording.Success(window, 1500, 4000, 1, 1, 1);
  recording.Success(window, 4000, 8000, 1, 1, 1);
  recording.Success(window, 6000, 7000, 1, 1, 1);
  EXPECT_EQ(recording.requests(), 1U);
  EXPECT_DOUBLE_EQ(recording.parts(), 0.5 + 1 + 0.25);
}

TEST(Recording, MergesWhatWentWrong) {
  Recording all;
  Recording fine;
  all.Merge(std::move(fine));
  EXPECT_TRUE(all.rate_held());
  Recording overloaded;
  overloaded.Unanswered();
  overloaded.Failure("another");
  overloaded.RateNotHeld();
  all.Merge(std::move(overloaded));
  EXPECT_EQ(all.unanswered(), 1U);
  EXPECT_EQ(all.errors(), 2U);
  EXPECT_EQ(all.first_error(), "a request was not answered in time");
  EXPECT_FALSE(all.rate_held());
}

}  // namespace
}  // namespace braid::bench
