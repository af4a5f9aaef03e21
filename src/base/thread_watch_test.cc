#include "base/thread_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>

#include "base/thread.h"
#include "base/thread_stack.h"

// A function that the test finds in a stack; not inlined.
__attribute__((noinline)) void BlockedInTheTest(const std::shared_future<void>& until) {
  until.wait();
  asm volatile("");
}

namespace braid {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

// On a busy machine threads wait, which is a stall too.
constexpr ThreadWatch::Options kQuick = {.look_ns = 5'000'000, .stall_ns = 30'000'000};

// Collects the logged lines.
class Lines final : public LogObserver {
 public:
  void OnLine(const LogLine& line) override {
    const std::scoped_lock lock(mutex_);
    lines_.emplace_back(line.text);
    changed_.notify_all();
  }
  void AwaitOne(const std::string& part) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(30), [&] {
      return std::any_of(lines_.begin(), lines_.end(),
                         [&](const std::string& line) { return line.find(part) != std::string::npos; });
    })) << part;
  }
  std::vector<std::string> all() {
    const std::scoped_lock lock(mutex_);
    return lines_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
};

// A thread that runs tasks in their order.
class Runner {
 public:
  Runner() {
    thread_ = StartThread("runner", [this] { Run(); });
  }
  ~Runner() {
    {
      const std::scoped_lock lock(mutex_);
      stopping_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }
  bool Post(std::function<void()> task) {
    const std::scoped_lock lock(mutex_);
    tasks_.push_back(std::move(task));
    changed_.notify_all();
    return true;
  }

 private:
  void Run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
      if (stopping_) return;
      const auto task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::thread thread_;
};

class ThreadWatchTest : public ::testing::Test {
 protected:
  static std::unique_ptr<Logger> MakeLog(Lines& lines) {
    Logger::Options options;
    options.observer = &lines;
    auto log = Logger::Create(options);
    return std::move(*log);
  }

  Lines lines_;
  const std::unique_ptr<Logger> log_ = MakeLog(lines_);
};

TEST_F(ThreadWatchTest, SeesAThreadThatRunsNoTasks) {
  Runner runner;
  ThreadWatch watch(*log_, kQuick);
  const auto watched = watch.WatchTasks("runner", [&](auto task) { return runner.Post(std::move(task)); });
  std::promise<void> release;
  const std::shared_future<void> until = release.get_future().share();
  std::promise<void> blocked;
  runner.Post([&] {
    blocked.set_value();
    BlockedInTheTest(until);
  });
  blocked.get_future().wait();
  lines_.AwaitOne("thread runner has stalled for ");
#if !defined(_GLIBCXX_TSAN)
  // ThreadSanitizer delays signals.
  lines_.AwaitOne("BlockedInTheTest(");
#endif
  EXPECT_GE(watch.Stalls().at("runner"), 1U);
  release.set_value();
  lines_.AwaitOne("thread runner resumed after ");
}

TEST_F(ThreadWatchTest, SaysThatAThreadHasNotRunYet) {
  ThreadWatch watch(*log_, kQuick);
  const auto watched = watch.WatchTasks("late", [](const auto&) { return true; });
  lines_.AwaitOne("thread late has stalled for ");
  lines_.AwaitOne("; it has not run yet");
}

TEST_F(ThreadWatchTest, SeesAThreadThatTakesNoMessages) {
  ThreadWatch watch(*log_, kQuick);
  std::atomic<uint64_t> arrived{3};
  std::atomic<uint64_t> handled{3};
  std::promise<void> release;
  const std::shared_future<void> until = release.get_future().share();
  std::promise<pid_t> id;
  std::thread reader = StartThread("reader", [&] {
    id.set_value(ThreadId());
    BlockedInTheTest(until);
  });
  const auto watched = watch.WatchWork("reader", "instance 'm_0'", id.get_future().get(), [&] {
    return ThreadWatch::Work{arrived.load(), handled.load()};
  });
  EXPECT_EQ(watch.Stalls().at("reader"), 0U);
  ++arrived;
  lines_.AwaitOne("thread reader of instance 'm_0' has stalled for ");
#if !defined(_GLIBCXX_TSAN)
  // ThreadSanitizer delays signals.
  lines_.AwaitOne("BlockedInTheTest(");
#endif
  EXPECT_EQ(watch.Stalls().at("reader"), 1U);
  ++handled;
  lines_.AwaitOne("thread reader of instance 'm_0' resumed after ");
  release.set_value();
  reader.join();
}

TEST_F(ThreadWatchTest, LeavesAloneWhatHasNothingToDo) {
  Runner runner;
  ThreadWatch watch(*log_, {.look_ns = 5'000'000, .stall_ns = 20'000'000'000});
  std::atomic<int> looks{0};
  const auto tasks = watch.WatchTasks("runner", [&](auto task) { return runner.Post(std::move(task)); });
  const auto ended = watch.WatchTasks("ended", [&](const auto&) { return false; });
  const auto idle = watch.WatchWork("idle", "", ThreadId(), [&] {
    ++looks;
    looks.notify_all();
    return ThreadWatch::Work{7, 7};
  });
  for (int seen = 0; seen < 20; seen = looks) looks.wait(seen);
  const std::map<std::string, uint64_t> none = {{"runner", 0}, {"ended", 0}, {"idle", 0}};
  EXPECT_EQ(watch.Stalls(), none);
  EXPECT_TRUE(lines_.all().empty());
}

TEST(ThreadStack, IsThatOfTheThread) {
#if defined(_GLIBCXX_TSAN)
  GTEST_SKIP() << "the thread sanitizer keeps signals back";
#endif
  std::promise<void> release;
  const std::shared_future<void> until = release.get_future().share();
  std::promise<pid_t> id;
  std::thread blocked = StartThread("blocked", [&] {
    id.set_value(ThreadId());
    BlockedInTheTest(until);
  });
  const pid_t thread = id.get_future().get();
  // The thread may not have reached the function yet.
  Result<std::vector<std::string>> stack = UnavailableError("not asked yet");
  for (int i = 0; i < 1000; ++i) {
    stack = StackOf(thread);
    ASSERT_TRUE(stack.ok()) << stack.status().message();
    if (::testing::Value(*stack, Contains(HasSubstr("BlockedInTheTest(")))) break;
    std::this_thread::yield();
  }
  EXPECT_THAT(*stack, Contains(AllOf(HasSubstr("BlockedInTheTest("), HasSubstr("base_test"))));
  release.set_value();
  blocked.join();
}

TEST(ThreadStack, IsNotToBeHadOfAThreadThatIsGone) {
  std::promise<pid_t> id;
  StartThread("gone", [&] { id.set_value(ThreadId()); }).join();
  const auto stack = StackOf(id.get_future().get());
  ASSERT_FALSE(stack.ok());
  EXPECT_THAT(stack.status().message(), HasSubstr("the stack of thread "));
}

}  // namespace
}  // namespace braid
