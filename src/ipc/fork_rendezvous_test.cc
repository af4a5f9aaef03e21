#include "ipc/fork_rendezvous.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "ipc/arena.h"

namespace braid {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

std::span<const std::byte> Bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

class ForkRendezvousTest : public testing::Test {
 protected:
  void SetUp() override {
    Channel::WorkerEnd end;
    server_ = Channel::CreateServerEnd({}, end).value();
    worker_ = Channel::OpenWorkerEnd(std::move(end)).value();
  }

  // Returns the sockets of all forks that ask for a channel; waits for the first.
  std::vector<UniqueFd> ForkSockets() {
    std::vector<std::byte> message;
    EXPECT_EQ(server_->Receive(message, 10 * kSecond), Channel::Outcome::kTimeout);
    EXPECT_TRUE(server_->TakeForkSignal());
    EXPECT_EQ(server_->ReceiveSegment(false).value(), nullptr);
    return server_->TakeForkSockets();
  }

  std::unique_ptr<Channel> server_;
  std::unique_ptr<Channel> worker_;
};

TEST_F(ForkRendezvousTest, AForkSpeaksOnAChannelOfItsOwn) {
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    auto end = RequestForkChannel(*worker_, 10 * kSecond);
    if (!end.ok()) _exit(1);
    auto own = Channel::OpenWorkerEnd(std::move(end).value());
    if (!own.ok() || !(*own)->SendSegment(*Segment::Create(7, 4096).value(), 7).ok()) _exit(5);
    if (!(*own)->Send(Bytes("from the fork")).ok()) _exit(2);
    std::vector<std::byte> answer;
    if ((*own)->Receive(answer, 10 * kSecond) != Channel::Outcome::kMessage) _exit(3);
    _exit(answer.size() == 2 ? 0 : 4);
  }
  auto fork_sockets = ForkSockets();
  ASSERT_EQ(fork_sockets.size(), 1u);
  Channel::WorkerEnd end;
  Channel::Options options;
  options.wake_by_socket = true;
  auto own = Channel::CreateServerEnd(options, end).value();
  ASSERT_TRUE(GrantForkChannel(fork_sockets[0], end).ok());
  end = {};
  std::vector<std::byte> message;
  ASSERT_EQ(own->Receive(message, 10 * kSecond), Channel::Outcome::kMessage);
  EXPECT_EQ(std::memcmp(message.data(), "from the fork", message.size()), 0);
  const auto segment = own->ReceiveSegment(false).value();
  ASSERT_NE(segment, nullptr);
  EXPECT_EQ(segment->id(), 7u);
  ASSERT_TRUE(own->Send(Bytes("ok")).ok());
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
  // Its end is seen on the wake socket.
  char byte = 0;
  EXPECT_EQ(recv(own->wake_fd(), &byte, 1, MSG_DONTWAIT), 0);
  // The channel of the worker still works.
  ASSERT_TRUE(worker_->Send(Bytes("x")).ok());
  EXPECT_EQ(server_->Receive(message, kSecond), Channel::Outcome::kMessage);
}

TEST_F(ForkRendezvousTest, SegmentsAndForkSocketsDoNotDisturbEachOther) {
  auto segment = Segment::Create(7, 4096).value();
  int sockets[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets), 0);
  UniqueFd one(sockets[0]);
  UniqueFd other(sockets[1]);
  ASSERT_TRUE(worker_->SendForkSocket(one.get()).ok());
  ASSERT_TRUE(worker_->SendSegment(*segment, 7).ok());
  auto received = server_->ReceiveSegment(false);
  ASSERT_TRUE(received.ok());
  ASSERT_NE(*received, nullptr);
  EXPECT_EQ((*received)->id(), 7u);
  EXPECT_TRUE(server_->TakeForkSignal());
  EXPECT_FALSE(server_->TakeForkSignal());
  EXPECT_EQ(server_->TakeForkSockets().size(), 1u);
}

TEST_F(ForkRendezvousTest, WhoIsRefusedHearsIt) {
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    auto end = RequestForkChannel(*worker_, 10 * kSecond);
    _exit(!end.ok() && end.status().message().starts_with("the server refused") ? 0 : 1);
  }
  ForkSockets().clear();
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
}

TEST_F(ForkRendezvousTest, NobodyWaitsForEver) {
  auto end = RequestForkChannel(*worker_, 1'000'000);
  ASSERT_FALSE(end.ok());
  EXPECT_EQ(end.status().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace braid
