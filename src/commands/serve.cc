#include "commands/serve.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <thread>

#include "base/guard.h"
#include "base/recent_log.h"
#include "commands/keep_memory.h"
#include "server/environment.h"
#include "server/options.h"
#include "server/server.h"

namespace braid {
namespace {

// Each large tensor in flight is a descriptor, so the limit is raised as far as it goes without asking
// anybody.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

int Serve(const CommandLine& line) {
  Logger::Options log_options;
  log_options.info = line.options.log_info;
  log_options.warning = line.options.log_warning;
  log_options.error = line.options.log_error;
  log_options.verbose_level = static_cast<int>(line.options.log_verbose);
  log_options.format = line.options.log_format;
  log_options.file = line.options.log_file;
  std::optional<RecentLog> recent_log;
  if (line.options.console_place() != ConsolePlace::kNone) log_options.observer = &recent_log.emplace();
  Result<std::unique_ptr<Logger>> made = Logger::Create(log_options);
  if (!made.ok()) {
    std::cerr << "braid: " << EscapeForLog(made.status().message()) << '\n';
    return 1;
  }
  Logger& log = **made;
  for (const std::string& note : line.notes) BRAID_LOG_INFO(log, "{}", note);

  // Every thread inherits the mask; signals are taken by sigwait() below and nowhere else.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  InstallAllocationHandler();
  KeepMemory();
  RaiseDescriptorLimit();

  Status loaded;
  Result<std::unique_ptr<Server>> started =
      Server::Start(line.options, log, recent_log ? &*recent_log : nullptr, loaded);
  if (!started.ok()) {
    BRAID_LOG_ERROR(log, "{}", started.status().message());
    std::cerr << "error: " << EscapeForLog(started.status().message()) << '\n';
    return 1;
  }
  Server& server = **started;
  int exit_code = 0;
  if (!loaded.ok() && line.options.exit_on_error) {
    log.Flush();
    std::cerr << "error: creating server: " << StatusCodeName(loaded.code()) << " - "
              << EscapeForLog(loaded.message()) << '\n';
    exit_code = 1;
  } else {
    std::cout << '\n' << ModelTable(server.catalog()) << '\n';
    std::cout << "listening: " << AddressesJson(server.addresses()) << '\n';
    if (std::string sample = SampleRequest(server.catalog(), server.addresses()); !sample.empty()) {
      std::cout << "try:       " << sample << '\n';
    }
    if (const std::string url = server.console_url(); !url.empty()) std::cout << "console:   " << url << '\n';
    std::cout << std::endl;
    int signal = 0;
    sigwait(&signals, &signal);
    BRAID_LOG_INFO(log, "signal {}: draining for at most {} s", signal, line.options.exit_timeout_secs);
  }
  if (Status stopped = server.Stop(); !stopped.ok()) {
    BRAID_LOG_ERROR(log, "{}", stopped.message());
    log.Flush();
    std::cout.flush();
    // A thread is held up in user code and cannot be joined; the workers end with this process.
    _exit(exit_code == 0 ? 1 : exit_code);
  }
  BRAID_LOG_INFO(log, "stopped");
  return exit_code;
}

}  // namespace

int RunServe(int argc, const char* const* argv) {
  CommandLine line = ParseServe(argc, argv);
  if (line.exit_code) {
    std::cout << line.out;
    std::cerr << line.err;
    return *line.exit_code;
  }
  line.options.environment = ReadEnvironment();
  return Serve(line);
}

}  // namespace braid
