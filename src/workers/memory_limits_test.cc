#include "workers/memory_limits.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>

namespace braid {
namespace {

// Processes whose memory the test sets.
class Machine {
 public:
  MemoryLimits::Readers readers() {
    return {[this](pid_t pid) { return Read(pid, resident_, looks_); },
            [this](pid_t pid) { return Read(pid, proportional_, true_looks_); }};
  }
  void Set(pid_t pid, uint64_t resident, uint64_t proportional) {
    const std::scoped_lock lock(mutex_);
    resident_[pid] = resident;
    proportional_[pid] = proportional;
  }
  // Waits until the process was checked twice more.
  void AwaitLooks() {
    std::unique_lock lock(mutex_);
    const int before = looks_;
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(30), [&] { return looks_ >= before + 2; }));
  }
  int true_looks() {
    const std::scoped_lock lock(mutex_);
    return true_looks_;
  }

 private:
  std::optional<uint64_t> Read(pid_t pid, const std::map<pid_t, uint64_t>& bytes, int& count) {
    const std::scoped_lock lock(mutex_);
    ++count;
    changed_.notify_all();
    const auto found = bytes.find(pid);
    return found == bytes.end() ? std::nullopt : std::optional(found->second);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<pid_t, uint64_t> resident_;
  std::map<pid_t, uint64_t> proportional_;
  int looks_ = 0;
  int true_looks_ = 0;
};

TEST(MemoryLimits, SayWhenAProcessTakesMoreThanItMay) {
  Machine machine;
  machine.Set(7, 100, 60);
  MemoryLimits limits(machine.readers());
  std::atomic<uint64_t> excess{0};
  const auto watched = limits.Watch({.id = [] { return 7; },
                                     .most_bytes = 100,
                                     .on_excess =
                                         [&](uint64_t bytes) {
                                           excess = bytes;
                                           excess.notify_all();
                                         }});
  machine.AwaitLooks();
  EXPECT_EQ(machine.true_looks(), 0);  // the bound is below the limit
  machine.Set(7, 150, 100);
  machine.AwaitLooks();
  machine.AwaitLooks();
  EXPECT_GE(machine.true_looks(), 1);
  EXPECT_EQ(excess, 0U);
  machine.Set(7, 151, 101);
  excess.wait(0);
  EXPECT_EQ(excess, 101U);
}

TEST(MemoryLimits, LeaveAloneWhatIsNotThere) {
  Machine machine;
  machine.Set(7, 500, 500);
  MemoryLimits limits(machine.readers());
  std::atomic<pid_t> pid{0};
  std::atomic<int> told{0};
  auto watched = limits.Watch({.id = [&] { return pid.load(); },
                               .most_bytes = 100,
                               .on_excess =
                                   [&](uint64_t) {
                                     ++told;
                                     told.notify_all();
                                   }});
  const auto gone =
      limits.Watch({.id = [] { return 8; }, .most_bytes = 100, .on_excess = [&](uint64_t) { told = 9; }});
  machine.AwaitLooks();
  EXPECT_EQ(told, 0);
  pid = 7;
  told.wait(0);
  EXPECT_EQ(told, 1);
  watched.reset();
  machine.AwaitLooks();
  EXPECT_EQ(told, 1);
}

}  // namespace
}  // namespace braid
