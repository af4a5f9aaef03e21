#include "serving/cancellation.h"

#include <gtest/gtest.h>

#include <thread>

namespace braid {
namespace {

TEST(Cancellation, TellsTheListenerOnce) {
  Cancellation cancellation;
  int told = 0;
  cancellation.SetListener([&told] { ++told; });
  EXPECT_FALSE(cancellation.cancelled());
  cancellation.Cancel();
  cancellation.Cancel();
  EXPECT_TRUE(cancellation.cancelled());
  EXPECT_EQ(told, 1);
}

TEST(Cancellation, TellsALateListenerAtOnce) {
  Cancellation cancellation;
  cancellation.Cancel();
  int told = 0;
  cancellation.SetListener([&told] { ++told; });
  EXPECT_EQ(told, 1);
}

TEST(Cancellation, TellsOnlyThePresentListener) {
  Cancellation cancellation;
  int first = 0;
  int second = 0;
  cancellation.SetListener([&first] { ++first; });
  cancellation.SetListener([&second] { ++second; });
  cancellation.Cancel();
  EXPECT_EQ(first, 0);
  EXPECT_EQ(second, 1);
}

TEST(Cancellation, TellsNobodyAfterClearListener) {
  Cancellation cancellation;
  cancellation.SetListener([] { FAIL(); });
  cancellation.ClearListener();
  cancellation.Cancel();
  EXPECT_TRUE(cancellation.cancelled());
}

TEST(Cancellation, NoListenerRunsAfterClearListenerReturned) {
  for (int round = 0; round < 200; ++round) {
    Cancellation cancellation;
    auto told = std::make_unique<int>(0);
    cancellation.SetListener([&told] { ++*told; });
    std::thread canceller([&cancellation] { cancellation.Cancel(); });
    cancellation.ClearListener();
    told.reset();  // the sanitizers would find a listener that ran now
    canceller.join();
  }
}

}  // namespace
}  // namespace braid
