#include "ipc/fork_rendezvous.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "base/send_descriptors.h"

namespace braid {
namespace {

// Memory, socket, wake.
constexpr size_t kDescriptors = 3;

// The one byte of the answer, which carries the descriptors.
constexpr char kWelcome = 1;

}  // namespace

Result<Channel::WorkerEnd> RequestForkChannel(Channel& inherited, int64_t timeout_ns) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
    return UnavailableError(ErrnoError("socketpair", errno).message());
  }
  UniqueFd ours(sockets[0]);
  {
    UniqueFd servers(sockets[1]);
    BRAID_RETURN_IF_ERROR(inherited.SendForkSocket(servers.get()));
  }
  const int64_t deadline_ns = SteadyNowNs() + timeout_ns;
  pollfd poll_for{ours.get(), POLLIN, 0};
  for (;;) {
    const int64_t left_ms = std::max<int64_t>(deadline_ns - SteadyNowNs(), 0) / 1'000'000;
    const int ready = poll(&poll_for, 1, static_cast<int>(std::min<int64_t>(left_ms, 1'000'000)));
    if (ready > 0) break;
    if (ready == 0 && SteadyNowNs() >= deadline_ns)
      return UnavailableError("the server does not answer a forked process");
    if (ready < 0 && errno != EINTR) return UnavailableError(ErrnoError("poll", errno).message());
  }
  char byte = 0;
  iovec part{&byte, sizeof(byte)};
  alignas(cmsghdr) char control[CMSG_SPACE(kDescriptors * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t length = 0;
  do {
    length = recvmsg(ours.get(), &message, MSG_CMSG_CLOEXEC);
  } while (length < 0 && errno == EINTR);
  const cmsghdr* head = length > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (head == nullptr || head->cmsg_type != SCM_RIGHTS ||
      head->cmsg_len != CMSG_LEN(sizeof(int) * kDescriptors))
    return UnavailableError(
        "the server refused a forked process: the model has too many, or is shutting down");
  int descriptors[kDescriptors];
  std::memcpy(descriptors, CMSG_DATA(head), sizeof(descriptors));
  Channel::WorkerEnd end;
  end.memory.Reset(descriptors[0]);
  end.socket.Reset(descriptors[1]);
  end.wake.Reset(descriptors[2]);
  return end;
}

Status GrantForkChannel(const UniqueFd& fork_socket, const Channel::WorkerEnd& end) {
  const int descriptors[kDescriptors] = {end.memory.get(), end.socket.get(), end.wake.get()};
  return SendDescriptors(fork_socket.get(), std::as_bytes(std::span(&kWelcome, 1)), descriptors, MSG_DONTWAIT,
                         "cannot answer a forked process");
}

}  // namespace braid
