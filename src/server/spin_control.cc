#include "server/spin_control.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <fstream>
#include <sstream>

#include <spdlog/fmt/fmt.h>

#include "base/clock.h"
#include "base/thread.h"
#include "ipc/channel.h"

namespace braid {
namespace {

constexpr auto kDecideEach = std::chrono::seconds(1);

std::string Contents(const char* path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Returns the cores that this process may use, by number.
std::vector<bool> UsableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<bool> usable(CPU_SETSIZE);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return {};
  for (int core = 0; core < CPU_SETSIZE; ++core) usable[static_cast<size_t>(core)] = CPU_ISSET(core, &set);
  return usable;
}

}  // namespace

SpinControl::SpinControl(int spin_us) {
  if (spin_us != kAuto) {
    Channel::SetSpinNs(int64_t{spin_us} * 1000);
    return;
  }
  usable_ = UsableCores();
  double cores = static_cast<double>(std::count(usable_.begin(), usable_.end(), true));
  // Time that is spent polling counts against a quota.
  if (const auto quota = ReadQuota(Contents("/sys/fs/cgroup/cpu.max"))) cores = std::min(cores, *quota);
  if (cores >= kLeastCores) thread_ = StartThread("brd-spin", [this] { Run(); });
}

SpinControl::~SpinControl() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  stop_.NotifyAll();
  if (thread_.joinable()) thread_.join();
  Channel::SetSpinNs(0);
}

Result<int> SpinControl::Parse(std::string_view text) {
  if (text == "auto") return kAuto;
  int us = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), us);
  if (error != std::errc() || end != text.data() + text.size() || us < 0 || us > kMostUs) {
    return InvalidArgumentError(
        fmt::format("'{}' is neither auto nor a number of microseconds from 0 to {}", text, kMostUs));
  }
  return us;
}

int64_t SpinControl::Decide(int64_t now_ns, double idle) {
  if (idle >= kBeginIdle) return kAutoNs;
  return idle < kLeastIdle ? 0 : now_ns;
}

double SpinControl::ReadIdleSeconds(std::string_view stat, const std::vector<bool>& usable) {
  uint64_t idle = 0;
  std::istringstream lines{std::string(stat)};
  for (std::string line; std::getline(lines, line);) {
    // "cpu0 user nice system idle iowait ..."; the line "cpu" is the sum.
    std::istringstream fields(line);
    std::string name;
    uint64_t user = 0;
    uint64_t nice = 0;
    uint64_t system = 0;
    uint64_t ticks = 0;
    if (!(fields >> name >> user >> nice >> system >> ticks) || !name.starts_with("cpu")) continue;
    size_t core = 0;
    const auto [end, error] = std::from_chars(name.data() + 3, name.data() + name.size(), core);
    if (error != std::errc() || core >= usable.size() || !usable[core]) continue;
    idle += ticks;
  }
  return static_cast<double>(idle) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

std::optional<double> SpinControl::ReadQuota(std::string_view cpu_max) {
  std::istringstream fields{std::string(cpu_max)};
  double quota = 0;
  double period = 0;
  if (!(fields >> quota >> period) || period <= 0) return std::nullopt;
  return quota / period;
}

void SpinControl::Run() {
  int64_t spin_ns = 0;
  int64_t then_ns = SteadyNowNs();
  double then = ReadIdleSeconds(Contents("/proc/stat"), usable_);
  MutexLock lock(mutex_);
  while (!stopping_) {
    if (stop_.WaitFor(mutex_, kDecideEach)) continue;
    const int64_t now_ns = SteadyNowNs();
    const double now = ReadIdleSeconds(Contents("/proc/stat"), usable_);
    const double seconds = static_cast<double>(now_ns - then_ns) / kSecondNs;
    spin_ns = Decide(spin_ns, (now - then) / seconds);
    Channel::SetSpinNs(spin_ns);
    then_ns = now_ns;
    then = now;
  }
}

}  // namespace braid
