// SpinControl: lets threads poll for a moment before they sleep, where the machine has idle cores.
//
// Waking a thread on an idle core takes 20 to 40 us, and a request to a Python model wakes three. A thread
// that polls needs no wake-up, but takes its core from others. So with `--spin-us auto` threads poll only
// while cores are idle anyway.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"

namespace braid {

class SpinControl {
 public:
  // The values of --spin-us.
  static constexpr int kAuto = -1;
  static constexpr int kMostUs = 1000;

  // Sets Channel::SetSpinNs() to a constant, or with kAuto starts a thread that decides each second. The
  // thread is not started on a machine with fewer than kLeastCores usable cores.
  explicit SpinControl(int spin_us);
  // Threads stop polling.
  ~SpinControl();

  // Reads "auto" or microseconds from 0 to kMostUs. Errors: INVALID_ARGUMENT.
  static Result<int> Parse(std::string_view text);

  static constexpr int kLeastCores = 4;
  // Polling begins when so many cores were idle for a second, and ends when fewer than kLeastIdle were.
  static constexpr double kBeginIdle = 2.5;
  static constexpr double kLeastIdle = 1.0;
  static constexpr int64_t kAutoNs = 100'000;

  // Returns how long threads poll after a second in which `idle` cores had nothing to do; `now_ns` is the
  // present value.
  static int64_t Decide(int64_t now_ns, double idle);
  // Returns the seconds in which cores were idle, summed over the cores in `usable` (by number), from the text
  // of /proc/stat.
  static double ReadIdleSeconds(std::string_view stat, const std::vector<bool>& usable);
  // Returns the cores that the control group allows, by the text of its cpu.max ("max 100000"); nullopt: all.
  static std::optional<double> ReadQuota(std::string_view cpu_max);

 private:
  void Run();

  std::vector<bool> usable_;
  Mutex mutex_;
  CondVar stop_;
  bool stopping_ BRAID_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace braid
