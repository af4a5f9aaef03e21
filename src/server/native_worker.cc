#include "server/native_worker.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/native/native_worker.h"
#include "base/guard.h"
#include "base/unique_fd.h"
#include "graph/registry.h"
#include "mediapipe_graph/calculator_host.h"
#include "mediapipe_graph/calculator_library.h"
#include "server/keep_memory.h"

namespace braid {
namespace {

// Returns the descriptor with this number; invalid if it is not an open descriptor.
UniqueFd Descriptor(std::string_view word) {
  int number = -1;
  const auto [end, fault] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (fault != std::errc() || end != word.data() + word.size() || number <= STDERR_FILENO) return {};
  // Child processes of the libraries do not inherit it.
  if (fcntl(number, F_SETFD, FD_CLOEXEC) != 0) return {};
  return UniqueFd(number);
}

Result<NativeCalculators> OpenLibrary(const std::string& path) {
  auto registry = std::make_shared<graph::CalculatorRegistry>();
  BRAID_RETURN_IF_ERROR(AddCalculatorLibrary(path, *registry));
  NativeCalculators calculators;
  calculators.names = registry->Names();
  const auto host = std::make_shared<CalculatorHost>(std::move(registry));
  calculators.call = [host](const std::vector<Tensor>& inputs) { return host->Call(inputs); };
  return calculators;
}

}  // namespace

int RunNativeWorkerCommand(int argc, const char* const* argv) {
  Channel::WorkerEnd end;
  if (argc == 5) {
    end.memory = Descriptor(argv[2]);
    end.socket = Descriptor(argv[3]);
    end.wake = Descriptor(argv[4]);
  }
  if (!end.memory.valid() || !end.socket.valid() || !end.wake.valid()) {
    std::cerr << "braid: " << kNativeWorkerCommand << " is started only by the server\n";
    return 1;
  }
  prctl(PR_SET_NAME, "braid-native");
  std::signal(SIGPIPE, SIG_IGN);
  InstallAllocationHandler();
  KeepMemory();
  const int code = RunNativeWorker(std::move(end), &OpenLibrary);
  std::fflush(nullptr);
  // Threads of libraries keep running and need their data until the process exits.
  _exit(code);
}

}  // namespace braid
