#include "base/send_descriptors.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "base/unique_fd.h"

namespace braid {
namespace {

TEST(SendDescriptors, TheReceiverHasTheBytesAndTheSameFiles) {
  int sockets[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
  UniqueFd ours(sockets[0]);
  UniqueFd theirs(sockets[1]);
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  UniqueFd reading(pipes[0]);
  UniqueFd writing(pipes[1]);

  const std::string note = "two ends";
  const int sent[] = {reading.get(), writing.get()};
  ASSERT_TRUE(SendDescriptors(ours.get(), std::as_bytes(std::span(note)), sent, 0, "test").ok());

  char bytes[64] = {};
  iovec part{bytes, sizeof(bytes)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(sent))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ASSERT_EQ(recvmsg(theirs.get(), &message, MSG_CMSG_CLOEXEC), static_cast<ssize_t>(note.size()));
  EXPECT_EQ(std::string(bytes), note);
  const cmsghdr* head = CMSG_FIRSTHDR(&message);
  ASSERT_NE(head, nullptr);
  ASSERT_EQ(head->cmsg_len, CMSG_LEN(sizeof(sent)));
  int received[2];
  std::memcpy(received, CMSG_DATA(head), sizeof(received));
  UniqueFd their_reading(received[0]);
  UniqueFd their_writing(received[1]);
  ASSERT_EQ(write(their_writing.get(), "x", 1), 1);
  char byte = 0;
  EXPECT_EQ(read(reading.get(), &byte, 1), 1);
  EXPECT_EQ(byte, 'x');
}

TEST(SendDescriptors, AClosedPeerIsAnErrorThatSaysWhat) {
  int sockets[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
  UniqueFd ours(sockets[0]);
  close(sockets[1]);
  const std::string note = "x";
  const int sent[] = {ours.get()};
  const Status status = SendDescriptors(ours.get(), std::as_bytes(std::span(note)), sent, 0, "the other end");
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(status.message().find("the other end"), 0u);
}

}  // namespace
}  // namespace braid
