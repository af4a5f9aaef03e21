// SocketFile: the file by which clients reach a Unix socket.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>

#include "base/status.h"
#include "base/unique_fd.h"

namespace braid {

// Removes the file when it is destroyed, unless another file has its path by then.
// REQUIRES: the socket is open until then, so that the system gives the file's number to no other file.
class SocketFile {
 public:
  SocketFile() = default;
  // Takes over the existing file.
  explicit SocketFile(std::string path);
  SocketFile(SocketFile&& other) noexcept;
  SocketFile& operator=(SocketFile&&) = delete;
  ~SocketFile();

  const std::string& path() const { return path_; }

 private:
  std::string path_;  // empty: no file
  dev_t device_ = 0;
  ino_t number_ = 0;
};

struct UnixListener {
  UniqueFd fd;
  SocketFile file;  // destroyed before `fd`
};

// Listens at a path with a non-blocking socket. Its file never has more permissions than `mode`, and has all
// of them before the first client can connect. Replaces the file of a socket whose server is dead.
//
// Servers that open sockets in one folder take turns, so that none takes another's new socket for a dead one.
// Errors: UNAVAILABLE "Socket 'unix:{path}' already in use"; FAILED_PRECONDITION for another kind of file,
// or if another process locks the folder for long; those of the system.
Result<UnixListener> ListenAtPath(const std::string& path, uint32_t mode);

}  // namespace braid
