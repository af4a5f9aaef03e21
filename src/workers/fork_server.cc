#include "workers/fork_server.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "base/clock.h"
#include "base/send_descriptors.h"

namespace braid {
namespace {

constexpr size_t kMaxDatagram = 64 << 10;
// How often a waiting thread checks for the end.
constexpr int64_t kLookMs = 100;

}  // namespace

Result<UniqueFd> ForkServer::Open(int64_t timeout_ns, const std::atomic<bool>& ending) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0)
    return ErrnoError("socketpair", errno);
  *this = ForkServer(UniqueFd(sockets[0]), timeout_ns, ending);
  return UniqueFd(sockets[1]);
}

Result<Json> ForkServer::Receive() const {
  const int64_t deadline = SteadyNowNs() + timeout_ns_;
  while (true) {
    const int64_t left_ms = (deadline - SteadyNowNs()) / kMillisecondNs;
    if (left_ms <= 0)
      return UnavailableError("it did not answer within " + std::to_string(timeout_ns_ / kSecondNs) +
                              " seconds (--backend-config=python,stub-timeout-seconds)");
    if (*ending_) return UnavailableError("it is no longer needed");
    pollfd wait{socket_.get(), POLLIN, 0};
    const int ready = poll(&wait, 1, static_cast<int>(std::min(left_ms, kLookMs)));
    if (ready < 0 && errno != EINTR) return UnavailableError(ErrnoError("poll", errno).message());
    if (ready <= 0) continue;
    std::string text(kMaxDatagram, '\0');
    const ssize_t length = recv(socket_.get(), text.data(), text.size(), 0);
    if (length < 0 && errno == EINTR) continue;
    if (length <= 0) return UnavailableError("it ended while in use");
    text.resize(static_cast<size_t>(length));
    Json answer = ParseJson(text);
    if (!answer.is_object()) return UnavailableError("it sent a malformed answer");
    return answer;
  }
}

Result<pid_t> ForkServer::Fork(const std::string& name, bool apart, std::span<const int> descriptors) const {
  const std::string order = DumpJson(Json{{"name", name}, {"apart", apart}});
  if (!SendDescriptors(socket_.get(), std::as_bytes(std::span(order)), descriptors, 0, "the fork server")
           .ok())
    return UnavailableError("it ended after its last use");
  BRAID_ASSIGN_OR_RETURN(const Json answer, Receive());
  const int64_t pid = answer.value("pid", int64_t{0});
  if (pid <= 0) return InternalError(answer.value("error", "cannot fork the worker"));
  return static_cast<pid_t>(pid);
}

}  // namespace braid
