// The load generator's run: wait for the server, warm up, measure, stop, report.
//
// Exits with 0 if every request of the run had a correct response, at least one counted, and a rate was held.
// Exits with 2 if not, and with 1 if the run could not start.
#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <thread>

#include "base/clock.h"
#include "base/thread.h"
#include "driver.h"
#include "process_tree.h"
#include "report.h"

namespace braid::bench {
namespace {

constexpr double kSampleEveryS = 0.25;

void SleepFor(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

double OwnCpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Keeps freed memory: fresh pages cost more than the copies into them, and would take processor time from the
// server.
void KeepFreedMemory() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TOP_PAD, 64 << 20);
}

bool WaitReady(const Driver& driver, double limit_s) {
  const int64_t until_ns = SteadyNowNs() + static_cast<int64_t>(limit_s * 1e9);
  while (!driver.Ready()) {
    if (SteadyNowNs() > until_ns) return false;
    SleepFor(0.02);
  }
  return true;
}

// Opens the window, measures the server during it, and closes it.
Usage Measure(const Options& options, Window& window) {
  Usage usage;
  usage.window_s = options.duration_s;
  const bool watch = options.server_pid > 0;
  std::set<int> processes;
  double server_cpu_s = 0;
  if (watch) {
    processes = ProcessTree(options.server_pid);
    usage.server_peak_proportional_kb = ProportionalKb(processes);
    server_cpu_s = CpuSeconds(processes);
  }
  const double client_cpu_s = OwnCpuSeconds();
  const int64_t begin_ns = SteadyNowNs();
  const int64_t end_ns = begin_ns + static_cast<int64_t>(options.duration_s * 1e9);
  window.end_ns = end_ns;
  window.begin_ns = begin_ns;
  for (int64_t now_ns = begin_ns; now_ns < end_ns; now_ns = SteadyNowNs()) {
    SleepFor(std::min(kSampleEveryS, static_cast<double>(end_ns - now_ns) / 1e9));
    if (watch) usage.server_peak_resident_kb = std::max(usage.server_peak_resident_kb, ResidentKb(processes));
  }
  usage.actual_s = static_cast<double>(SteadyNowNs() - begin_ns) / 1e9;
  usage.client_cpu_s = OwnCpuSeconds() - client_cpu_s;
  if (watch) {
    processes.merge(ProcessTree(options.server_pid));
    usage.server_cpu_s = CpuSeconds(processes) - server_cpu_s;
    usage.server_peak_proportional_kb =
        std::max(usage.server_peak_proportional_kb, ProportionalKb(processes));
    usage.server_processes = processes.size();
  }
  return usage;
}

int Main(int argc, char** argv) {
  KeepFreedMemory();
  Options options;
  int exit_code = 0;
  if (!ParseOptions(argc, argv, &options, &exit_code)) return exit_code;
  const Result<std::unique_ptr<Driver>> made = Driver::Make(options);
  if (!made.ok()) {
    std::fprintf(stderr, "braid_loadgen: %s\n", made.status().message().c_str());
    return 1;
  }
  const Driver& driver = **made;
  if (options.wait_ready_s > 0 && !WaitReady(driver, options.wait_ready_s)) {
    std::fprintf(stderr, "braid_loadgen: server or model was not ready in time\n");
    return 1;
  }

  if (const Status status = driver.RegisterMemory(); !status.ok()) {
    std::fprintf(stderr, "braid_loadgen: cannot register shared memory: %s\n", status.message().c_str());
    return 1;
  }

  Window window;
  window.open_load = options.rate > 0;
  std::vector<Recording> recordings(static_cast<size_t>(options.threads));
  std::vector<std::thread> threads;
  for (int i = 0; i < options.threads; ++i) {
    const int slots =
        options.concurrency / options.threads + (i < options.concurrency % options.threads ? 1 : 0);
    threads.push_back(StartThread("brd-load-" + std::to_string(i), [&driver, &window, &recordings, slots, i] {
      driver.Run(slots, window, recordings[static_cast<size_t>(i)]);
    }));
  }
  SleepFor(options.warmup_s);
  const Usage usage = Measure(options, window);
  window.stop = true;
  for (std::thread& thread : threads) thread.join();

  Recording all;
  for (Recording& recording : recordings) all.Merge(std::move(recording));
  all.Sort();
  std::puts(MakeReport(options, all, usage).c_str());
  return all.requests() == 0 || all.errors() > 0 || !all.rate_held() ? 2 : 0;
}

}  // namespace
}  // namespace braid::bench

int main(int argc, char** argv) { return braid::bench::Main(argc, argv); }
