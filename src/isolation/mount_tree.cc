#include "isolation/mount_tree.h"

#include <fcntl.h>
#include <sched.h>
#include <spdlog/fmt/fmt.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <deque>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/guard.h"
#include "base/unique_fd.h"
#include "isolation/worker_surroundings.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

// The kernel's own limit.
constexpr int kMostLinks = 40;
constexpr std::string_view kSharedMemoryPath = "/dev/shm";

// Links that programs expect beside their devices.
constexpr std::array<std::array<const char*, 2>, 4> kDeviceLinks = {
    {{"/dev/fd", "/proc/self/fd"}, {"/dev/stdin", "fd/0"}, {"/dev/stdout", "fd/1"}, {"/dev/stderr", "fd/2"}}};

bool IsBelow(std::string_view path, std::string_view folder) {
  return path.starts_with(folder) && path.substr(folder.size()).starts_with('/');
}

// Keeps new mounts from appearing in the mounts from which they were copied. In a chroot, "/" is not a mount
// and cannot be made private. setns() goes to the namespace's own root, where all mounts can be reached.
Status MakeMountsPrivate() {
  const auto privately = [] { return ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0; };
  if (privately()) return OkStatus();
  if (errno != EINVAL) return ErrnoError("private mounts", errno);
  constexpr int kPlace = O_PATH | O_DIRECTORY | O_CLOEXEC;
  const UniqueFd root(::open("/", kPlace));
  const UniqueFd mounts(::open("/proc/thread-self/ns/mnt", O_RDONLY | O_CLOEXEC));
  if (!root.valid() || !mounts.valid() || ::setns(mounts.get(), CLONE_NEWNS) != 0 || !privately() ||
      ::fchdir(root.get()) != 0 || ::chroot(".") != 0)
    return ErrnoError("private mounts of a chroot", errno);
  return OkStatus();
}

struct MountOption {
  const char* name;
  const char* value;
};

// Returns a mount of a new file system, not yet attached.
UniqueFd NewMount(const char* type, std::initializer_list<MountOption> options, unsigned attributes) {
  const UniqueFd made(static_cast<int>(::syscall(SYS_fsopen, type, FSOPEN_CLOEXEC)));
  if (!made.valid()) return {};
  for (const MountOption& option : options) {
    if (::syscall(SYS_fsconfig, made.get(), FSCONFIG_SET_STRING, option.name, option.value, 0) != 0)
      return {};
  }
  if (::syscall(SYS_fsconfig, made.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) return {};
  return UniqueFd(static_cast<int>(::syscall(SYS_fsmount, made.get(), FSMOUNT_CLOEXEC, attributes)));
}

bool SetAttributes(const UniqueFd& mount, uint64_t attributes, unsigned flags) {
  mount_attr change{};
  change.attr_set = attributes;
  return ::syscall(SYS_mount_setattr, mount.get(), "", AT_EMPTY_PATH | flags, &change, sizeof(change)) == 0;
}

// Returns a copy of the mount of a file or folder, with all mounts below it.
UniqueFd CopiedMount(const char* path, bool writable) {
  constexpr unsigned kFlags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_SYMLINK_NOFOLLOW;
  UniqueFd mount(static_cast<int>(::syscall(SYS_open_tree, AT_FDCWD, path, kFlags)));
  if (!mount.valid()) return {};
  const uint64_t attributes = MOUNT_ATTR_NOSUID | (writable ? 0 : MOUNT_ATTR_RDONLY);
  return SetAttributes(mount, attributes, AT_RECURSIVE) ? std::move(mount) : UniqueFd();
}

bool Place(const UniqueFd& mount, int folder, const char* path) {
  return ::syscall(SYS_move_mount, mount.get(), "", folder, path, MOVE_MOUNT_F_EMPTY_PATH) == 0;
}

bool WriteTo(const std::string& path, const std::string& text) {
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return file.valid() && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

std::string MapToItself(uint32_t id) { return fmt::format("{0} {0} 1", id); }

// Returns a user namespace in which this process's user keeps its id and may mount; invalid if the system
// allows none.
//
// A child that shares or copies this process's memory is not dumpable, so its id maps cannot be written. The
// child therefore executes a program, is stopped at its start, and is killed afterwards.
UniqueFd NewUserNamespace() {
  const pid_t pid = ::fork();
  if (pid == 0) {
    if (::unshare(CLONE_NEWUSER) == 0 && ::ptrace(PTRACE_TRACEME, 0, 0, 0) == 0)
      ::execl("/proc/self/exe", "/proc/self/exe", nullptr);
    ::_exit(1);
  }
  int status = 0;
  if (pid < 0 || ::waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status)) return {};
  const std::string process = fmt::format("/proc/{}/", pid);
  UniqueFd made;
  if (WriteTo(process + "setgroups", "deny") && WriteTo(process + "gid_map", MapToItself(::getegid())) &&
      WriteTo(process + "uid_map", MapToItself(::geteuid())))
    made.Reset(::open((process + "ns/user").c_str(), O_RDONLY | O_CLOEXEC));
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  return made;
}

bool IsGone(int error) { return error == ENOENT || error == ENOTDIR || error == EACCES; }

}  // namespace

// Collects paths, and orders the steps that create them.
class MountTree::Plan {
 public:
  void Add(const LandlockPath& path) {
    const std::optional<std::string> real = Follow(path.path);
    if (!real) return;
    struct stat info {};
    if (::lstat(real->empty() ? "/" : real->c_str(), &info) != 0) return;
    Step& step = found_[*real];
    step.kind = path.path == kSharedMemoryPath ? Kind::kSharedMemory
                : path.path == "/proc"         ? Kind::kProcesses
                                               : Kind::kMount;
    step.source = real->empty() ? "/" : *real;
    // A device can be written to wherever its file is; a writable device folder would only allow changes of
    // modes.
    const bool devices = IsBelow(*real, "/dev") && !IsBelow(*real, kSharedMemoryPath);
    step.writable |= path.writable && !devices && (S_ISDIR(info.st_mode) || S_ISREG(info.st_mode));
    if (S_ISDIR(info.st_mode)) folders_.insert(*real);
  }

  std::vector<Step> Steps() {
    for (const auto& [link, target] : kDeviceLinks) found_[link] = {.kind = Kind::kLink, .source = target};
    for (auto& [path, step] : found_) Put(path, step);
    return std::move(steps_);
  }

 private:
  // Returns the path without links, "" for "/"; nullopt if no such file exists. Records the links on the way.
  std::optional<std::string> Follow(const std::string& path) {
    std::deque<std::string> ahead;
    const auto go = [&ahead](const fs::path& to) {
      auto place = ahead.begin();
      for (const fs::path& name : to.relative_path()) place = std::next(ahead.insert(place, name.string()));
    };
    go(path);
    std::string place;
    for (int links = 0; !ahead.empty();) {
      const std::string name = ahead.front();
      ahead.pop_front();
      if (name.empty() || name == ".") continue;
      if (name == "..") {
        place.resize(place.empty() ? 0 : place.rfind('/'));
        continue;
      }
      const std::string next = place + "/" + name;
      std::error_code fault;
      const fs::file_type type = fs::symlink_status(next, fault).type();
      if (type == fs::file_type::not_found || type == fs::file_type::none) return std::nullopt;
      if (type != fs::file_type::symlink) {
        place = next;
        continue;
      }
      const fs::path target = fs::read_symlink(next, fault);
      if (fault || ++links > kMostLinks) return std::nullopt;
      found_.try_emplace(next, Step{.kind = Kind::kLink, .source = target.string()});
      if (target.is_absolute()) place.clear();
      go(target);
    }
    return place;
  }

  void Put(const std::string& path, Step& step) {
    const Step* around = nullptr;
    size_t from = path.empty() ? 0 : path.rfind('/');
    while (!path.empty()) {
      if (const auto put = mounts_.find(path.substr(0, from)); put != mounts_.end()) around = put->second;
      if (around != nullptr || from == 0) break;
      from = path.rfind('/', from - 1);
    }
    const bool stands = around != nullptr && around->kind != Kind::kSharedMemory;
    if (stands && step.kind == Kind::kLink) return;
    if (stands && step.kind == Kind::kMount && (around->writable || !step.writable)) return;
    if (!stands && !path.empty()) {
      for (size_t end = path.find('/', from + 1); end != std::string::npos; end = path.find('/', end + 1))
        if (made_.insert(path.substr(0, end)).second)
          steps_.push_back({.kind = Kind::kFolder, .path = path.substr(1, end - 1)});
      if (step.kind != Kind::kLink && made_.insert(path).second)
        steps_.push_back(
            {.kind = folders_.contains(path) ? Kind::kFolder : Kind::kFile, .path = path.substr(1)});
    }
    if (step.kind != Kind::kLink) mounts_[path] = &step;
    step.path = path.empty() ? "" : path.substr(1);
    steps_.push_back(step);
  }

  std::map<std::string, Step> found_;  // by path, so that each entry follows its parent folders
  std::set<std::string> folders_;
  std::map<std::string, const Step*> mounts_;
  std::set<std::string> made_;
  std::vector<Step> steps_;
};

MountTree MountTree::Of(const std::vector<LandlockPath>& paths) {
  Plan plan;
  for (const LandlockPath& path : paths) plan.Add(path);
  MountTree tree;
  tree.steps_ = plan.Steps();
  if (::geteuid() != 0) {
    static const UniqueFd users = NewUserNamespace();
    tree.users_ = users.get();
  }
  return tree;
}

Status MountTree::Take(int root, const Step& step, bool own_processes) {
  constexpr unsigned kPlain = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
  const char* const path = step.path.c_str();
  UniqueFd mount;
  switch (step.kind) {
    case Kind::kFolder:
      return ::mkdirat(root, path, 0755) == 0 ? OkStatus() : ErrnoError("folder '" + step.path + "'", errno);
    case Kind::kFile: {
      const UniqueFd file(::openat(root, path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
      return file.valid() ? OkStatus() : ErrnoError("file '" + step.path + "'", errno);
    }
    case Kind::kLink:
      return ::symlinkat(step.source.c_str(), root, path) == 0
                 ? OkStatus()
                 : ErrnoError("link '" + step.path + "'", errno);
    case Kind::kMount:
      mount = CopiedMount(step.source.c_str(), step.writable);
      // Left out, as with Landlock.
      if (!mount.valid() && IsGone(errno)) return OkStatus();
      break;
    case Kind::kProcesses:
      // Fails in containers that hide parts of /proc. The copy then shows the names of other processes.
      if (own_processes) mount = NewMount("proc", {{"hidepid", "invisible"}}, kPlain | MOUNT_ATTR_RDONLY);
      if (!mount.valid()) mount = CopiedMount(step.source.c_str(), false);
      break;
    case Kind::kSharedMemory:
      mount = NewMount("tmpfs", {{"mode", "1777"}}, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
      break;
  }
  if (!mount.valid() || !Place(mount, root, path)) return ErrnoError("a mount at /" + step.path, errno);
  return OkStatus();
}

Status MountTree::Enter(bool own_processes) const {
  if (users_ >= 0 && ::setns(users_, CLONE_NEWUSER) != 0) return ErrnoError("a user namespace", errno);
  if (::unshare(CLONE_NEWNS | CLONE_NEWIPC) != 0) return ErrnoError("namespaces of mounts and IPC", errno);
  BRAID_RETURN_IF_ERROR(MakeMountsPrivate());
  const bool whole = !steps_.empty() && steps_.front().path.empty();
  const UniqueFd root = whole ? CopiedMount("/", steps_.front().writable)
                              : NewMount("tmpfs", {{"mode", "0755"}, {"size", "1m"}},
                                         MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
  // Attached over "/", where it hides nothing yet: paths resolve as before until it becomes the root.
  if (!root.valid() || !Place(root, AT_FDCWD, "/")) return ErrnoError("a private root", errno);
  const mode_t mask = ::umask(0);
  for (const Step& step : steps_) {
    if (step.path.empty()) continue;
    BRAID_RETURN_IF_ERROR(Take(root.get(), step, own_processes));
  }
  ::umask(mask);
  if (!whole && !SetAttributes(root, MOUNT_ATTR_RDONLY, 0)) return ErrnoError("a root to read", errno);
  if (::fchdir(root.get()) != 0 || ::chroot(".") != 0) return ErrnoError("a private root", errno);
  return OkStatus();
}

bool CanMakeMountTrees() {
  static const bool can = [] {
    const MountTree tree = MountTree::Of(SystemPaths());
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return false;
    const UniqueFd result(ends[0]);
    UniqueFd made(ends[1]);
    // In a child process, because a sandbox around this process may kill it for the attempt.
    const pid_t pid = ::fork();
    char byte = 0;
    if (pid == 0) {
      if (Guarded([&tree] { return tree.Enter(false); }).ok() && ::write(made.get(), &byte, 1) == 1)
        ::_exit(0);
      ::_exit(1);
    }
    made.Reset();
    const bool succeeded = ::read(result.get(), &byte, 1) == 1;
    if (pid > 0) ::waitpid(pid, nullptr, 0);
    return succeeded;
  }();
  return can;
}

}  // namespace braid
