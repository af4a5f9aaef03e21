#include "protocols/net/socket_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/unix_address.h"

namespace braid {
namespace {

// Limit on the wait for other servers that open sockets in the same folder. Each takes less than a
// millisecond.
constexpr int64_t kMostWaitNs = 2 * kSecondNs;
constexpr std::chrono::milliseconds kPause{5};

UniqueFd NewSocket() { return UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

int Bind(const UniqueFd& fd, const std::string& path) {
  const sockaddr_un name = UnixName(path);
  return ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0 ? 0 : errno;
}

// Locks the folder of a socket until the descriptor is closed.
Result<UniqueFd> LockFolderOf(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoError("the folder " + folder, errno);
  const int64_t deadline_ns = SteadyNowNs() + kMostWaitNs;
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return ErrnoError("locking the folder " + folder, errno);
    if (SteadyNowNs() > deadline_ns)
      return FailedPreconditionError("another process locks the folder " + folder);
    std::this_thread::sleep_for(kPause);
  }
  return fd;
}

// Removes the file at `path` if it is a socket without a server.
Status RemoveDeadSocket(const std::string& path) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) return errno == ENOENT ? OkStatus() : ErrnoError("the file", errno);
  if (!S_ISSOCK(found.st_mode))
    return FailedPreconditionError("the file exists and is not a socket; remove it or choose another path");
  const UniqueFd probe = NewSocket();
  if (!probe.valid()) return ErrnoError("a socket", errno);
  const sockaddr_un name = UnixName(path);
  const bool connected = ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0;
  // A socket of another kind, or with many waiting clients, has a server too.
  if (connected || errno == EAGAIN || errno == EPROTOTYPE)
    return UnavailableError("Socket '" + UnixAddress(path) + "' already in use");
  if (errno != ECONNREFUSED && errno != ENOENT)
    return ErrnoError("cannot tell whether the socket has a server", errno);
  if (::unlink(path.c_str()) == 0 || errno == ENOENT) return OkStatus();
  return ErrnoError("removing the socket of a dead server", errno);
}

}  // namespace

SocketFile::SocketFile(std::string path) : path_(std::move(path)) {
  struct stat found {};
  if (::lstat(path_.c_str(), &found) == 0) {
    device_ = found.st_dev;
    number_ = found.st_ino;
  }
}

SocketFile::SocketFile(SocketFile&& other) noexcept
    : path_(std::exchange(other.path_, {})), device_(other.device_), number_(other.number_) {}

SocketFile::~SocketFile() {
  struct stat found {};
  if (path_.empty() || ::lstat(path_.c_str(), &found) != 0) return;
  if (found.st_dev == device_ && found.st_ino == number_) ::unlink(path_.c_str());
}

Result<UnixListener> ListenAtPath(const std::string& path, uint32_t mode) {
  const auto refuse = [&path](const Status& why) {
    if (why.code() == StatusCode::kUnavailable && why.message().starts_with("Socket '")) return why;
    return why.WithPrefix("cannot listen on " + UnixAddress(path) + ": ");
  };
  Result<UniqueFd> lock = LockFolderOf(path);
  if (!lock.ok()) return refuse(lock.status());
  UniqueFd fd = NewSocket();
  // The file gets this mode without the bits of the process's mask.
  if (!fd.valid() || ::fchmod(fd.get(), mode) != 0) return refuse(ErrnoError("a socket", errno));
  int error = Bind(fd, path);
  if (error == EADDRINUSE) {
    if (Status removed = RemoveDeadSocket(path); !removed.ok()) return refuse(removed);
    error = Bind(fd, path);
  }
  if (error != 0) return refuse(ErrnoError("its file", error));
  SocketFile file(path);
  // No client can connect yet.
  if (::chmod(path.c_str(), mode) != 0) return refuse(ErrnoError("the mode of its file", errno));
  if (::listen(fd.get(), SOMAXCONN) != 0) return refuse(ErrnoError("listening", errno));
  return UnixListener{std::move(fd), std::move(file)};
}

}  // namespace braid
