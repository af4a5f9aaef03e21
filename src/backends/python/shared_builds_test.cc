#include "backends/python/shared_builds.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>
#include <vector>

namespace braid {
namespace {

using Builds = SharedBuilds<const int>;

Builds::Value Make(int number) { return std::make_shared<const int>(number); }
Status KeepWaiting() { return OkStatus(); }

TEST(SharedBuilds, SharesWhatIsUsedAndMakesAnewWhatIsNot) {
  Builds builds;
  int built = 0;
  const auto build = [&] { return Make(++built); };
  auto first = builds.Get("a", build, KeepWaiting);
  auto second = builds.Get("a", build, KeepWaiting);
  EXPECT_EQ(*first, *second);
  EXPECT_EQ(*builds.Get("b", build, KeepWaiting).value(), 2);
  first = Make(0);
  second = Make(0);
  EXPECT_EQ(*builds.Get("a", build, KeepWaiting).value(), 3);
}

TEST(SharedBuilds, AllWhoWaitGetOneOutcome) {
  for (const bool succeeds : {true, false}) {
    Builds builds;
    std::atomic<int> built = 0;
    std::latch building(1);
    std::latch go_on(1);
    const auto build = [&]() -> Builds::Value {
      if (++built == 1) building.count_down();
      go_on.wait();
      if (!succeeds) return InternalError("no");
      return Make(7);
    };
    std::vector<Builds::Value> values(4, Status(InternalError("not asked")));
    std::vector<std::thread> threads;
    threads.emplace_back([&] { values[0] = builds.Get("a", build, KeepWaiting); });
    building.wait();
    for (size_t i = 1; i < values.size(); ++i) {
      threads.emplace_back([&, i] { values[i] = builds.Get("a", build, KeepWaiting); });
    }
    // A build of another key does not wait.
    EXPECT_TRUE(builds
                    .Get(
                        "b", [] { return Make(1); }, KeepWaiting)
                    .ok());
    go_on.count_down();
    for (std::thread& thread : threads) thread.join();
    for (const auto& value : values) {
      ASSERT_EQ(value.ok(), succeeds);
      if (succeeds) {
        EXPECT_EQ(*value, *values[0]);
      } else {
        // Threads that came too late for the first attempt have made another.
        EXPECT_EQ(value.status().message(), "no");
      }
    }
    EXPECT_TRUE(built == 1 || !succeeds);
  }
}

TEST(SharedBuilds, AWaitCanBeGivenUp) {
  Builds builds;
  std::latch building(1);
  std::latch go_on(1);
  std::thread builder([&] {
    const auto build = [&] {
      building.count_down();
      go_on.wait();
      return Make(1);
    };
    EXPECT_TRUE(builds.Get("a", build, KeepWaiting).ok());
  });
  building.wait();
  const auto give_up = [] { return Status(UnavailableError("stop")); };
  EXPECT_EQ(builds
                .Get(
                    "a", [] { return Make(2); }, give_up)
                .status()
                .message(),
            "stop");
  go_on.count_down();
  builder.join();
}

}  // namespace
}  // namespace braid
