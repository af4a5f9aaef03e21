#include "commands/bench.h"

#include <malloc.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>
#include <iostream>
#include <limits>

#include "base/utf8.h"
#include "load/bench.h"

namespace braid {
namespace {

constexpr int kErrors = 1;
constexpr int kBadUse = 2;

std::atomic<bool> interrupted{false};

// The first signal ends the measurement early; its results are reported. The second signal ends the program.
void EndWithWhatThereIs() {
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted.store(true, std::memory_order_relaxed); };
  action.sa_flags = SA_RESETHAND;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

// Keeps freed memory: fresh pages cost more than the copies into them, and burden the cores that a local
// server needs. Raises the limit on descriptors, because each connection uses one.
void PrepareProcess() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

bool WriteFile(const std::string& path, const std::string& text) {
  if (path.empty()) return true;
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (file) return true;
  std::cerr << "braid bench: cannot write " << path << '\n';
  return false;
}

}  // namespace

int RunBench(int argc, const char* const* argv) {
  load::BenchOptions options;
  if (const std::optional<int> exit_code = load::ParseBenchOptions(argc, argv, options)) return *exit_code;
  PrepareProcess();
  EndWithWhatThereIs();
  const Result<load::BenchResult> result = load::RunBenchmark(options, interrupted);
  if (!result.ok()) {
    std::cerr << "braid bench: " << ToUtf8(result.status().message()) << '\n';
    return result.status().code() == StatusCode::kInvalidArgument ? kBadUse : kErrors;
  }
  std::cout << (options.json ? load::JsonReport(options, *result) : load::TextReport(options, *result))
            << std::flush;
  bool written =
      WriteFile(options.csv_file, options.csv_file.empty() ? "" : load::CsvReport(options, *result));
  written =
      WriteFile(options.report_file, options.report_file.empty() ? "" : load::HtmlReport(options, *result)) &&
      written;
  const bool measured = !result->levels.empty() || !result->comparisons.empty();
  return measured && written && !result->errors() ? 0 : kErrors;
}

}  // namespace braid
