#include "isolation/start_program.h"

#include <fcntl.h>
#include <sched.h>
#include <spdlog/fmt/fmt.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>

#include "base/guard.h"
#include "base/unique_fd.h"

// clone(2), under a name that ThreadSanitizer does not intercept as a fork.
extern "C" int __clone(int (*run)(void*), void* stack, int flags, void* argument, ...);

namespace braid {
namespace {

// Above all descriptors that a program gets.
constexpr int kFirstSpare = 64;
constexpr size_t kStackBytes = 256 << 10;

// For execve(), which changes neither the texts nor the pointers.
std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Ways to remove the network, tried in order: as root, in a new user namespace, or not at all.
constexpr std::array kWaysWithoutNetwork = {CLONE_NEWNET, CLONE_NEWNET | CLONE_NEWUSER, 0};

void Write(const char* path, std::string_view text) {
  const UniqueFd file(::open(path, O_WRONLY | O_CLOEXEC));
  if (!file.valid() || ::write(file.get(), text.data(), text.size()) < 0)
    return;  // the user then shows as the overflow id
}

std::string MapOf(unsigned id) { return fmt::format("{} {} 1", id, id); }

// Returns the running program's name, unless another file has replaced it. By its name the program finds the
// files beside it, for example its libraries. In a chroot with new mounts, the kernel would report a name
// from outside.
std::string NameOf(const std::string& program) {
  if (program != kThisProgram) return program;
  std::error_code fault;
  std::string name = std::filesystem::read_symlink(program, fault).string();
  return std::filesystem::equivalent(name, program, fault) ? name : program;
}

// The new process until it becomes the program. Meanwhile it shares the server's memory, and the thread that
// starts it waits, as for vfork; it has a separate stack. It may be killed at any time, so it must not take
// the server's locks: it allocates only if it fails.
class Child {
 public:
  Child(const ProgramStart& start, PreparedConfinement confinement)
      : start_(start),
        program_(start.arguments.empty() ? "" : NameOf(start.arguments.front())),
        confinement_(std::move(confinement)),
        arguments_(Pointers(start.arguments)),
        variables_(Pointers(start.variables)) {}

  // Duplicates the descriptors above all targets, so that none is overwritten before it is passed.
  Status TakeDescriptors() {
    for (const int descriptor : start_.descriptors) {
      spares_.emplace_back(fcntl(descriptor, F_DUPFD_CLOEXEC, kFirstSpare));
      if (!spares_.back().valid()) return ErrnoError("cannot pass a descriptor", errno);
    }
    return OkStatus();
  }

  // Errors: the process could not become the program, and has ended.
  Result<pid_t> Start() {
    const bool own_processes = start_.confinement.level == IsolationLevel::kSeparate;
    const int flags = CLONE_VM | CLONE_VFORK | SIGCHLD | (own_processes ? CLONE_NEWPID : 0);
    // The server's signal handlers must not run in the child.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const auto run = [](void* self) {
      Child& child = *static_cast<Child*>(self);
      child.failed_ = Guarded([&child] { return child.Become(); });
      return 127;
    };
    pid_t pid = -1;
    for (const int more : std::span(kWaysWithoutNetwork).last(start_.no_network ? 3 : 1)) {
      own_user_ = (more & CLONE_NEWUSER) != 0;
      pid = __clone(run, stack_.data() + stack_.size(), flags | more, this);
      if (pid >= 0) break;
    }
    const int error = errno;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (pid < 0) return ErrnoError("a new process", error);
    if (failed_.ok()) return pid;
    waitpid(pid, nullptr, 0);
    return failed_;
  }

 private:
  // Returns only if the process cannot become the program, or without arguments.
  Status Become() {
    if (start_.ends_with_thread) prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (own_user_) {
      Write("/proc/self/setgroups", "deny");
      Write("/proc/self/uid_map", user_map_);
      Write("/proc/self/gid_map", group_map_);
    }
    // A confined process cannot change the limit that marks its family.
    for (const auto& [resource, value] : start_.limits) {
      if (setrlimit(static_cast<__rlimit_resource>(resource), &value) != 0) return Failed("a limit");
    }
    BRAID_RETURN_IF_ERROR(confinement_.Enter());
    if (start_.arguments.empty()) return OkStatus();
    // Ctrl-C on the terminal is for the server, which then ends its processes in order. The processes get no
    // access to the terminal.
    setsid();
    int target = 0;
    for (const UniqueFd& spare : spares_) dup2(spare.get(), target++);
    // Also closes descriptors that a library has opened without O_CLOEXEC.
    close_range(static_cast<unsigned>(target), ~0U, 0);
    if (!start_.folder.empty() && chdir(start_.folder.c_str()) != 0) return Failed("its folder");
    ResetSignals();
    execve(program_.c_str(), arguments_.data(), variables_.data());
    return Failed("cannot be run");
  }

  Status Failed(const char* what) const {
    return ErrnoError(fmt::format("'{}': {}", start_.arguments.front(), what), errno);
  }

  // A raw system call, because a sanitizer keeps its table of handlers in memory that the server shares.
  static void ResetSignals() {
    struct {
      void (*handler)(int);
      unsigned long flags;
      void* restorer;
      uint64_t mask;
    } now{}, usual{.handler = SIG_DFL, .flags = 0, .restorer = nullptr, .mask = 0};
    for (int number = 1; number < NSIG; ++number) {
      if (syscall(SYS_rt_sigaction, number, nullptr, &now, sizeof(now.mask)) != 0) continue;
      // The server ignores SIGPIPE only for itself.
      if (number == SIGPIPE || now.handler != SIG_IGN)
        syscall(SYS_rt_sigaction, number, &usual, nullptr, sizeof(usual.mask));
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
  }

  const ProgramStart& start_;
  const std::string program_;
  const PreparedConfinement confinement_;
  const std::vector<char*> arguments_;
  const std::vector<char*> variables_;
  const std::string user_map_ = MapOf(geteuid());
  const std::string group_map_ = MapOf(getegid());
  bool own_user_ = false;  // whether the new process has its own user namespace
  std::vector<UniqueFd> spares_;
  std::vector<std::byte> stack_ = std::vector<std::byte>(kStackBytes);
  Status failed_;  // written by the child
};

}  // namespace

Result<pid_t> StartProgram(const ProgramStart& start) {
  BRAID_ASSIGN_OR_RETURN(PreparedConfinement confinement, PreparedConfinement::Make(start.confinement));
  Child child(start, std::move(confinement));
  BRAID_RETURN_IF_ERROR(child.TakeDescriptors());
  return child.Start();
}

Status TryConfinement(const Confinement& confinement) {
  BRAID_ASSIGN_OR_RETURN(
      const pid_t pid,
      StartProgram({.arguments = {}, .variables = {}, .descriptors = {}, .confinement = confinement}));
  waitpid(pid, nullptr, 0);
  return OkStatus();
}

}  // namespace braid
