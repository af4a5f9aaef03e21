// ForkServer: the server's end of the socket of a process that forks workers. That is the zygote of an
// environment, or the template of a model. worker/braid_worker/fork_server.py is the other end.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>

#include "base/json.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace braid {

// Not synchronised. Errors UNAVAILABLE of all methods: the process has ended, or did not answer in time. It
// must then be discarded, because a late answer would be taken for that of the next request.
class ForkServer {
 public:
  ForkServer() = default;
  // A wait ends early once `ending` is set, which outlives this object.
  ForkServer(UniqueFd socket, int64_t timeout_ns, const std::atomic<bool>& ending)
      : socket_(std::move(socket)), timeout_ns_(timeout_ns), ending_(&ending) {}

  // Makes a socket, and returns the end of the process.
  Result<UniqueFd> Open(int64_t timeout_ns, const std::atomic<bool>& ending);
  bool valid() const { return socket_.valid(); }
  // Closes the socket, which ends the process.
  void Close() { socket_.Reset(); }

  // Receives one message, a JSON object.
  Result<Json> Receive() const;
  // Forks a worker named `name`; the descriptors are those of fork_server.py. `apart`: isolated from other
  // workers. Errors also: INTERNAL if it cannot fork.
  Result<pid_t> Fork(const std::string& name, bool apart, std::span<const int> descriptors) const;

 private:
  UniqueFd socket_;
  int64_t timeout_ns_ = 0;
  const std::atomic<bool>* ending_ = nullptr;
};

// Provides the fork server for workers that do not come from the zygote.
class ForkSource {
 public:
  // Whether new workers come from it.
  virtual bool active() const = 0;
  // Calls `fork` with a running fork server; no two calls overlap. May block until the server runs. Errors:
  // those of `fork`; UNAVAILABLE or those of user code if it does not run.
  virtual Status Use(const std::function<Status(const ForkServer&)>& fork) = 0;

 protected:
  ~ForkSource() = default;
};

}  // namespace braid
