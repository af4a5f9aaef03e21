#include "server/serve.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "base/guard.h"
#include "base/log_colours.h"
#include "base/mutex.h"
#include "base/recent_log.h"
#include "base/thread.h"
#include "server/environment.h"
#include "server/keep_memory.h"
#include "server/options.h"
#include "server/server.h"
#include "server/startup_report.h"

namespace braid {
namespace {

// Raises the descriptor limit to the maximum allowed without privileges: each large tensor in flight uses
// one.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Hides header values on the command line, where Triton accepts them and every process could read them.
void HideSecrets(int argc, const char* const* argv) {
  constexpr std::string_view kOptions[] = {"--http-restricted-api", "--grpc-restricted-protocol"};
  bool follows = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const bool names = std::ranges::any_of(
        kOptions, [&](std::string_view option) { return argument.substr(0, argument.find('=')) == option; });
    const bool has_value = names && argument.find('=') != std::string_view::npos;
    if (has_value || follows) {
      const size_t value = argument.rfind('=') + 1;
      // The program's own memory, which main() may modify.
      std::fill_n(const_cast<char*>(argv[i]) + value, argument.size() - value, '*');
    }
    follows = names && !has_value;
  }
}

// Returns the lines of a text, each escaped, with all but the first indented.
std::string Lines(std::string_view text) {
  std::string lines;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines += (begin == 0 ? "" : "\n  ") + EscapeForLog(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

// The results of the first loads, and the first signal.
struct Progress {
  Mutex mutex;
  CondVar changed;
  std::optional<Status> load BRAID_GUARDED_BY(mutex);  // of Server::Load(); nullopt until it has returned
  Status failed_loads;                                 // set by it
  int signal BRAID_GUARDED_BY(mutex) = 0;
};

// Waits for SIGINT or SIGTERM, on a thread that lives as long as the process.
void WatchSignals(const sigset_t& signals, std::shared_ptr<Progress> progress) {
  StartThread("brd-signal", [signals, progress = std::move(progress)] {
    int signal = 0;
    sigwait(&signals, &signal);
    MutexLock lock(progress->mutex);
    progress->signal = signal;
    progress->changed.NotifyAll();
  }).detach();
}

// Names that nothing can debug would leave a debugger waiting.
void WarnOfDebugModel(const std::string& name, const Catalog& catalog, Logger& log) {
  if (name.empty()) return;
  if (std::ranges::none_of(catalog.Index(false), [&](const auto& entry) { return entry.name == name; })) {
    BRAID_LOG_WARNING(log, "--debug-model: there is no model or graph '{}'", name);
  }
  for (const auto& servable : catalog.All()) {
    const ServableInfo& info = servable->info();
    const bool python = info.kind == ServableKind::kModel && info.makes_calls;
    if (info.name != name || python || info.kind == ServableKind::kGraph) continue;
    BRAID_LOG_WARNING(log, "--debug-model: '{}' is not a Python model or graph", name);
  }
}

int AwaitSignal(Progress& progress) {
  MutexLock lock(progress.mutex);
  while (progress.signal == 0) progress.changed.Wait(progress.mutex);
  return progress.signal;
}

// Loads the models and returns the result. User code may take any time, so a signal stops the server
// meanwhile: then returns nullopt, and sets `stopped` to the result.
std::optional<Status> Load(Server& server, const std::shared_ptr<Progress>& progress, Logger& log,
                           Status& stopped) {
  std::thread loads = StartThread("brd-load", [&server, progress] {
    const Status load = server.Load(progress->failed_loads);
    MutexLock lock(progress->mutex);
    progress->load = load;
    progress->changed.NotifyAll();
  });
  std::optional<Status> load;
  {
    MutexLock lock(progress->mutex);
    while (!progress->load && progress->signal == 0) progress->changed.Wait(progress->mutex);
    load = progress->load;
  }
  if (!load) {
    BRAID_LOG_INFO(log, "signal {} while models are loading: ending", AwaitSignal(*progress));
    stopped = server.Stop();
  }
  if (stopped.ok()) {
    loads.join();
  } else {
    loads.detach();  // blocked in user code
  }
  return load;
}

int Serve(const CommandLine& line) {
  Logger::Options log_options;
  log_options.info = line.options.log_info;
  log_options.warning = line.options.log_warning;
  log_options.error = line.options.log_error;
  log_options.verbose_level = static_cast<int>(line.options.log_verbose);
  log_options.format = line.options.log_format;
  log_options.file = line.options.log_file;
  log_options.colours = line.options.log_file.empty() && ShowsColours(STDERR_FILENO);
  std::optional<RecentLog> recent_log;
  if (line.options.console_place() != ConsolePlace::kNone) log_options.observer = &recent_log.emplace();
  Result<std::unique_ptr<Logger>> made = Logger::Create(log_options);
  if (!made.ok()) {
    std::cerr << "braid: " << EscapeForLog(made.status().message()) << '\n';
    return 1;
  }
  Logger& log = **made;
  for (const std::string& note : line.notes) BRAID_LOG_INFO(log, "{}", note);

  // Every thread inherits the mask, so that only sigwait() receives signals.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  InstallAllocationHandler();
  KeepMemory();
  RaiseDescriptorLimit();

  const auto progress = std::make_shared<Progress>();  // shared with the thread for signals
  WatchSignals(signals, progress);
  const auto fail = [&log](const Status& status) {
    BRAID_LOG_ERROR(log, "{}", status.message());
    std::cerr << "error: " << EscapeForLog(status.message()) << '\n';
    return 1;
  };
  Result<std::unique_ptr<Server>> started =
      Server::Start(line.options, log, recent_log ? &*recent_log : nullptr);
  if (!started.ok()) return fail(started.status());
  Server& server = **started;
  // The loaded models are served, and end in order, even if memory is short for a while.
  const RetryingAllocation retrying;
  int exit_code = 0;
  Status stopped;
  const std::optional<Status> load = Load(server, progress, log, stopped);
  const Status& failed_loads = progress->failed_loads;
  if (load && !load->ok()) {
    // The loaded models end as in a normal stop. The log names those that do not.
    exit_code = fail(*load);
    stopped = server.Stop();
  } else if (load && !failed_loads.ok() && line.options.exit_on_error) {
    log.Flush();
    std::cerr << "error: creating server: " << StatusCodeName(failed_loads.code()) << " - "
              << Lines(failed_loads.message())
              << "\nrun `braid check` with the same arguments for details; with --exit-on-error=false the "
                 "server serves the other models\n";
    exit_code = 1;
    stopped = server.Stop();
  } else if (load) {
    WarnOfDebugModel(line.options.workers.debugging.model, server.catalog(), log);
    std::cout << '\n' << ModelTable(server.catalog()) << '\n';
    std::cout << "listening: " << AddressesJson(server.addresses()) << '\n';
    if (const std::string others = OtherAddresses(server.addresses()); !others.empty())
      std::cout << "           also at " << others << '\n';
    if (!line.options.loopback_only()) {
      std::cout << "           reachable from other machines; use --host 127.0.0.1 for local clients only\n";
      const bool certified = (!line.options.allow_http || line.options.http_tls.mutual) &&
                             (!line.options.allow_grpc || line.options.grpc_tls.mutual);
      if (line.options.access_files.tokens.empty() && line.options.access_files.policy.empty() &&
          !certified) {
        BRAID_LOG_WARNING(log,
                          "every machine that reaches this one can use the server: neither --token-file nor "
                          "--policy-file is set");
      }
    }
    if (std::string sample = SampleRequest(server.catalog(), server.addresses()); !sample.empty()) {
      std::cout << "try:       " << sample << '\n';
    }
    if (const std::string url = server.console_url(); !url.empty()) std::cout << "console:   " << url << '\n';
    if (const std::string gpus = DescribeGpus(server.gpus()); !gpus.empty())
      std::cout << "GPUs:      " << gpus << '\n';
    std::cout << "isolation: " << DescribeIsolation(line.options.workers.isolation) << '\n';
    std::cout << std::endl;
    BRAID_LOG_INFO(log, "signal {}: draining for at most {} s", AwaitSignal(*progress),
                   line.options.exit_timeout_secs);
    stopped = server.Stop();
  }
  if (!stopped.ok()) {
    BRAID_LOG_ERROR(log, "{}", stopped.message());
    log.Flush();
    std::cout.flush();
    // A thread is blocked in user code and cannot be joined; the workers end with this process.
    _exit(exit_code == 0 ? 1 : exit_code);
  }
  BRAID_LOG_INFO(log, "stopped");
  started->reset();  // within `retrying`
  return exit_code;
}

}  // namespace

int RunServe(int argc, const char* const* argv, const FleetView* fleet_view) {
  CommandLine line = ParseServe(argc, argv, fleet_view);
  if (line.exit_code) {
    std::cout << line.out;
    std::cerr << line.err;
    return *line.exit_code;
  }
  HideSecrets(argc, argv);
  // Without this, processes of the same user could inspect this one on kernels without Landlock.
  if (line.options.workers.isolation.level != IsolationLevel::kNone) prctl(PR_SET_DUMPABLE, 0);
  line.options.environment = ReadEnvironment();
  // Python compares cached bytecode with its source by size and second, and would run the code of before if a
  // file is saved twice within a second.
  if (line.options.watch) ::setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
  return Serve(line);
}

}  // namespace braid
