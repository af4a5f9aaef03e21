#include "isolation/start_program.h"

#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "base/thread.h"
#include "base/unique_fd.h"

namespace braid {
namespace {

// Above all that a program is given.
constexpr int kFirstSpare = 64;

// For execve(), which changes neither the texts nor the pointers.
std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// What the new process does until it is the program. It shares the server's memory meanwhile (vfork), so it calls the
// kernel and nothing else.
class Child {
 public:
  explicit Child(const ProgramStart& start)
      : start_(start), arguments_(Pointers(start.arguments)), variables_(Pointers(start.variables)) {}

  // Duplicates above every target, so that none is overwritten before it was passed.
  Status TakeDescriptors() {
    for (const int descriptor : start_.descriptors) {
      spares_.emplace_back(fcntl(descriptor, F_DUPFD_CLOEXEC, kFirstSpare));
      if (!spares_.back().valid()) return ErrnoError("cannot pass a descriptor on", errno);
    }
    return OkStatus();
  }

  // On the confined thread. Errors: see failed().
  __attribute__((noinline)) pid_t Start() {
    // No handler of the server's may run in the child.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const pid_t pid = vfork();
    if (pid == 0) Run();
    if (pid < 0) Fail("fork");
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return pid;
  }
  bool failed() const { return error_ != 0; }
  Status error() const {
    return ErrnoError(fmt::format("'{}': {}", start_.arguments.front(), what_), error_);
  }

 private:
  void Fail(const char* what) {
    what_ = what;
    error_ = errno;
  }

  [[noreturn]] void Run() {
    // A Ctrl-C on the terminal is for the server, which then ends its processes in order.
    setpgid(0, 0);
    int target = 0;
    for (const UniqueFd& spare : spares_) dup2(spare.get(), target++);
    // Also those that a library of the server's has opened without O_CLOEXEC.
    close_range(static_cast<unsigned>(target), ~0U, 0);
    if (!start_.folder.empty() && chdir(start_.folder.c_str()) != 0) Stop("its folder");
    for (const auto& [resource, value] : start_.limits) {
      if (setrlimit(static_cast<__rlimit_resource>(resource), &value) != 0) Stop("a limit");
    }
    ResetSignals();
    execve(arguments_.front(), arguments_.data(), variables_.data());
    Stop("cannot be run");
  }

  static void ResetSignals() {
    struct sigaction usual {};
    usual.sa_handler = SIG_DFL;
    for (int number = 1; number < NSIG; ++number) {
      struct sigaction now {};
      if (sigaction(number, nullptr, &now) != 0) continue;
      // The server ignores SIGPIPE for itself.
      if (number == SIGPIPE || now.sa_handler != SIG_IGN) sigaction(number, &usual, nullptr);
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
  }

  [[noreturn]] void Stop(const char* what) {
    Fail(what);
    _exit(127);
  }

  const ProgramStart& start_;
  const std::vector<char*> arguments_;
  const std::vector<char*> variables_;
  std::vector<UniqueFd> spares_;
  // Written by the child.
  const char* volatile what_ = "";
  volatile int error_ = 0;
};

}  // namespace

Result<pid_t> StartProgram(const ProgramStart& start) {
  Child child(start);
  BRAID_RETURN_IF_ERROR(child.TakeDescriptors());
  Status confined;
  pid_t pid = 0;
  // What a thread gives up it has given up for good, and the process inherits it: a thread for this alone.
  StartThread("brd-spawn", [&] {
    confined = ConfineThread(start.confinement);
    if (confined.ok()) pid = child.Start();
  }).join();
  BRAID_RETURN_IF_ERROR(confined);
  if (!child.failed()) return pid;
  if (pid > 0) waitpid(pid, nullptr, 0);
  return child.error();
}

}  // namespace braid
