#include "base/send_descriptors.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace braid {

Status SendDescriptors(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors,
                       int flags, std::string_view what) {
  BRAID_CHECK(descriptors.size() <= kMostDescriptors);
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kMostDescriptors * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
  cmsghdr* head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(descriptors.size_bytes());
  std::memcpy(CMSG_DATA(head), descriptors.data(), descriptors.size_bytes());
  ssize_t sent = 0;
  do {
    sent = sendmsg(socket, &message, MSG_NOSIGNAL | flags);
  } while (sent < 0 && errno == EINTR);
  return sent < 0 ? UnavailableError(ErrnoError(what, errno).message()) : OkStatus();
}

}  // namespace braid
