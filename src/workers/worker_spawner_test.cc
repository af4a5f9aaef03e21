#include "workers/worker_spawner.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <thread>

#include "base/clock.h"
#include "base/testing/places.h"
#include "workers/worker_process.h"

namespace braid {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kPatienceNs = 60 * kSecond;

std::string Setting(const char* variable, const char* otherwise) {
  const char* value = std::getenv(variable);
  return value != nullptr ? value : otherwise;
}

// Finds the zygote among this process's children; 0 if none is alive.
pid_t FindZygote() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "stat");
    std::string pid;
    std::string name;
    char state = 0;
    pid_t parent = 0;
    if (file >> pid >> name >> state >> parent && parent == getpid() && name == "(brd-warm)" && state != 'Z')
      return static_cast<pid_t>(std::stol(pid));
  }
  return 0;
}

pid_t AwaitZygote(pid_t other_than) {
  const int64_t deadline = SteadyNowNs() + kPatienceNs;
  while (SteadyNowNs() < deadline) {
    if (const pid_t pid = FindZygote(); pid != 0 && pid != other_than) return pid;
    std::this_thread::yield();
  }
  return 0;
}

// With real interpreters.
class WorkerSpawnerTest : public ::testing::Test {
 protected:
  static WorkerSpawner::Options Options() {
    WorkerSpawner::Options options;
    options.python = Setting("BRAID_TEST_PYTHON", test_places::kPython);
    options.worker_directory = Setting("BRAID_TEST_WORKER", test_places::kPythonWorker);
    options.timeout_ns = kPatienceNs;
    return options;
  }
  Result<std::unique_ptr<WorkerProcess>> Start() { return WorkerProcess::Start("m_0", {}, spawner_); }
  static Status SignIn(WorkerProcess& worker) {
    return worker.AwaitSignIn([](const std::vector<std::byte>&) { return OkStatus(); });
  }

  Logger log_;
  std::shared_ptr<WorkerSupport> support_ = WorkerSupport::Create(log_).value();
  WorkerSpawner spawner_{Options(), *support_};
};

TEST_F(WorkerSpawnerTest, AZygoteThatDiesTakesNoWorkerWithItAndIsReplacedInAdvance) {
  auto worker = Start();
  ASSERT_TRUE(worker.ok()) << worker.status();
  ASSERT_TRUE(SignIn(**worker).ok());
  const pid_t first = FindZygote();
  ASSERT_NE(first, 0);
  kill(first, SIGKILL);
  const pid_t second = AwaitZygote(first);
  ASSERT_NE(second, 0) << "nobody has asked for one";
  // The first one was reaped, and its group ended, before the second was started.
  EXPECT_FALSE((*worker)->dead());
  auto other = Start();
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_TRUE(SignIn(**other).ok());
  EXPECT_FALSE((*worker)->dead());
}

TEST_F(WorkerSpawnerTest, AStartThatTheZygoteFailsIsTriedOnceMoreWithoutIt) {
  { ASSERT_TRUE(Start().ok()); }
  const pid_t zygote = FindZygote();
  ASSERT_NE(zygote, 0);
  // It receives the order, but does nothing until it is killed.
  kill(zygote, SIGSTOP);
  auto started = std::async(std::launch::async, [&] { return Start(); });
  // The order is in its socket, or finds the socket closed; both must work.
  kill(zygote, SIGKILL);
  auto worker = started.get();
  ASSERT_TRUE(worker.ok()) << worker.status();
  EXPECT_TRUE(SignIn(**worker).ok());
}

TEST_F(WorkerSpawnerTest, TellsKillsBySomebodyElse) {
  auto killed = Start();
  ASSERT_TRUE(killed.ok()) << killed.status();
  ASSERT_TRUE(SignIn(**killed).ok());
  EXPECT_FALSE((*killed)->killed_by_others());
  (*killed)->EnsureDead();
  EXPECT_FALSE((*killed)->killed_by_others()) << "it was us";
}

}  // namespace
}  // namespace braid
