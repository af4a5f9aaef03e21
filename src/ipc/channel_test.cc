#include "ipc/channel.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <random>
#include <thread>

#include "base/clock.h"

namespace braid {
namespace {

constexpr int64_t kLong = 60'000'000'000;
constexpr size_t kRing = 4096;
using Outcome = Channel::Outcome;
using Message = std::vector<std::byte>;

size_t OpenDescriptors() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

Message Bytes(size_t size, uint64_t seed) {
  Message bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(seed + i * 7 + i / 256);
  return bytes;
}

bool Readable(int fd) {
  pollfd poll_fd{fd, POLLIN, 0};
  return poll(&poll_fd, 1, 0) == 1;
}

class ChannelPair : public testing::Test {
 protected:
  ChannelPair() { Open({.ring_bytes = kRing}); }
  void Open(const Channel::Options& options) {
    Channel::WorkerEnd worker_end;
    server_ = Channel::CreateServerEnd(options, worker_end).value();
    memory_.Reset(dup(worker_end.memory.get()));
    worker_ = Channel::OpenWorkerEnd(std::move(worker_end)).value();
  }
  // Takes all available messages.
  static std::vector<Message> Drain(Channel& channel) {
    std::vector<Message> all;
    Message message;
    Outcome outcome{};
    while ((outcome = channel.Receive(message, 0)) == Outcome::kMessage) all.push_back(message);
    EXPECT_EQ(outcome, Outcome::kTimeout);
    return all;
  }
  // Sends a message that Channel::SendSegment() would not send.
  void SendRaw(const void* bytes, size_t size, std::vector<int> fds) {
    iovec part{const_cast<void*>(bytes), size};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 8)] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (!fds.empty()) {
      message.msg_control = control;
      message.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
      cmsghdr* head = CMSG_FIRSTHDR(&message);
      head->cmsg_level = SOL_SOCKET;
      head->cmsg_type = SCM_RIGHTS;
      head->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
      std::memcpy(CMSG_DATA(head), fds.data(), sizeof(int) * fds.size());
    }
    ASSERT_EQ(sendmsg(worker_->socket(), &message, 0), static_cast<ssize_t>(size));
  }
  void ExpectNoSegment(StatusCode code) {
    auto segment = server_->ReceiveSegment(false);
    ASSERT_FALSE(segment.ok());
    EXPECT_EQ(segment.status().code(), code) << segment.status();
  }

  UniqueFd memory_;  // of both, for the tests that play a hostile peer
  std::unique_ptr<Channel> server_;
  std::unique_ptr<Channel> worker_;
};

TEST_F(ChannelPair, CarriesMessagesBothWays) {
  ASSERT_TRUE(server_->Send(Bytes(10, 1)).ok());
  ASSERT_TRUE(server_->Send(Bytes(20, 2)).ok());
  ASSERT_TRUE(worker_->Send(Bytes(30, 3)).ok());
  EXPECT_EQ(Drain(*worker_), (std::vector<Message>{Bytes(10, 1), Bytes(20, 2)}));
  EXPECT_EQ(Drain(*server_), (std::vector<Message>{Bytes(30, 3)}));
}

TEST_F(ChannelPair, RefusesEmptyAndTooLongMessagesForBothEnds) {
  Open({.ring_bytes = kRing, .max_message = 1000});
  for (Channel* end : {server_.get(), worker_.get()}) {
    EXPECT_TRUE(end->Send(Bytes(1000, 1)).ok());
    EXPECT_EQ(end->Send(Bytes(1001, 1)).code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(end->Send({}).code(), StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(Drain(*worker_).size(), 1u);
  EXPECT_EQ(Drain(*server_).size(), 1u);
}

TEST_F(ChannelPair, RefusesRingSizesThatCannotBe) {
  Channel::WorkerEnd worker_end;
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{2048}, size_t{5000}, size_t{1} << 31, SIZE_MAX}) {
    auto channel = Channel::CreateServerEnd({.ring_bytes = bytes}, worker_end);
    ASSERT_FALSE(channel.ok()) << bytes;
    EXPECT_EQ(channel.status().code(), StatusCode::kInvalidArgument);
  }
}

TEST_F(ChannelPair, WorkerRefusesWhatIsNoChannel) {
  for (uint32_t ring_bytes : {0u, 4095u, 64u, 1u << 31, 1u << 30}) {
    auto* header = &server_->header();
    const uint32_t right = std::exchange(header->ring_bytes, ring_bytes);
    Channel::WorkerEnd end;
    end.memory.Reset(dup(memory_.get()));
    EXPECT_FALSE(Channel::OpenWorkerEnd(std::move(end)).ok()) << ring_bytes;
    header->ring_bytes = right;
  }
  server_->header().magic ^= 1;
  Channel::WorkerEnd end;
  end.memory.Reset(dup(memory_.get()));
  EXPECT_FALSE(Channel::OpenWorkerEnd(std::move(end)).ok());
  EXPECT_FALSE(Channel::OpenWorkerEnd({}).ok());
}

TEST_F(ChannelPair, DescriptorsAreClosedOnExecAndNoneIsLeft) {
  const size_t before = OpenDescriptors();
  {
    Channel::WorkerEnd end;
    auto server = Channel::CreateServerEnd({}, end).value();
    for (int fd : {end.memory.get(), end.socket.get(), end.wake.get(), server->socket(), server->wake_fd()}) {
      EXPECT_EQ(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    }
    auto worker = Channel::OpenWorkerEnd(std::move(end)).value();
  }
  EXPECT_EQ(OpenDescriptors(), before);
}

TEST_F(ChannelPair, ReceiveWithoutWaitingOrWithTimePassedReturnsAtOnce) {
  Message message;
  EXPECT_EQ(server_->Receive(message, 0), Outcome::kTimeout);
  EXPECT_EQ(server_->Receive(message, -1), Outcome::kTimeout);
  EXPECT_EQ(server_->Receive(message, 1'000'000), Outcome::kTimeout);
}

TEST_F(ChannelPair, SendNeverBlocksAndWhatWaitsFollowsInOrder) {
  std::vector<Message> sent;
  for (int i = 0; i < 100; ++i) {
    sent.push_back(Bytes(1 + i * 37, i));
    ASSERT_TRUE(server_->Send(sent.back(), i % 3 == 0).ok());
  }
  std::vector<Message> got;
  for (int round = 0; got.size() < sent.size(); ++round) {
    ASSERT_LT(round, 1000);
    for (Message& message : Drain(*worker_)) got.push_back(std::move(message));
    // The worker has reported space, and the server needs no more than that.
    EXPECT_TRUE(Drain(*server_).empty());
  }
  EXPECT_EQ(got, sent);
}

TEST_F(ChannelPair, MessagesMuchLargerThanTheRingPassWhileBothSidesSleep) {
  for (auto [from, to] : {std::pair{server_.get(), worker_.get()}, {worker_.get(), server_.get()}}) {
    const Message large = Bytes(100 * kRing + 5, 3);
    const int64_t start = SteadyNowNs();
    std::thread receiver([&, to = to] {
      Message message;
      EXPECT_EQ(to->Receive(message, kLong), Outcome::kMessage);
      EXPECT_EQ(message, large);
      EXPECT_TRUE(to->Send(Bytes(1, 1)).ok());
    });
    ASSERT_TRUE(from->Send(large).ok());
    Message answer;
    EXPECT_EQ(from->Receive(answer, kLong), Outcome::kMessage);
    receiver.join();
    EXPECT_LT(SteadyNowNs() - start, kLong) << "a wake-up was lost";
  }
}

TEST_F(ChannelPair, BothRingsFullAtOnceComeLooseAgain) {
  constexpr size_t kMessages = 60;
  for (size_t i = 0; i < kMessages; ++i) {
    ASSERT_TRUE(server_->Send(Bytes(900, i)).ok());
    ASSERT_TRUE(worker_->Send(Bytes(900, i)).ok());
  }
  size_t at_worker = 0;
  size_t at_server = 0;
  for (int round = 0; at_worker < kMessages || at_server < kMessages; ++round) {
    ASSERT_LT(round, 1000);
    at_worker += Drain(*worker_).size();
    at_server += Drain(*server_).size();
  }
}

// Both sides sleep whenever there is no message, and only the other side wakes them.
TEST_F(ChannelPair, NoWakeUpIsLostBetweenFullRings) {
  constexpr int kMessages = 3000;
  std::atomic<int> done{0};
  auto run = [&](Channel& channel, uint64_t seed) {
    std::mt19937_64 random(seed);
    Message message;
    int received = 0;
    for (int sent = 0; sent < kMessages || received < kMessages;) {
      for (size_t n = random() % 20; n > 0 && sent < kMessages; --n, ++sent) {
        ASSERT_TRUE(channel.Send(Bytes(1 + random() % 3000, sent), random() % 8 == 0).ok());
      }
      for (size_t n = random() % 20; n > 0 && received < kMessages; --n, ++received) {
        // As long as this side has messages to send, the other side may be waiting for them.
        const Outcome outcome = channel.Receive(message, sent < kMessages ? 0 : kLong);
        if (outcome == Outcome::kTimeout && sent < kMessages) break;
        ASSERT_EQ(outcome, Outcome::kMessage);
        ASSERT_EQ(message, Bytes(message.size(), received));
      }
    }
    // The side that is done first still serves the other, whose messages may wait here.
    if (++done == 2) {
      server_->Interrupt();
      worker_->Interrupt();
    }
    ASSERT_EQ(channel.Receive(message, kLong), Outcome::kTimeout);
    ASSERT_EQ(done, 2);
  };
  std::thread worker([&] { run(*worker_, 1); });
  run(*server_, 2);
  worker.join();
}

TEST_F(ChannelPair, TellsOfSpaceEvenWhenQuietMessagesFillTheWayBack) {
  std::vector<Message> sent;
  for (int i = 0; i < 8; ++i) {
    sent.push_back(Bytes(kRing / 4 - 8, i));
    ASSERT_TRUE(worker_->Send(sent.back()).ok());
  }
  ASSERT_TRUE(worker_->reader().SleepOnEventFd());
  // The ring has no byte left, not even for an empty message.
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(server_->Send(Bytes(kRing / 4 - 8, i), true).ok());
  EXPECT_FALSE(Readable(worker_->wake_fd()));
  EXPECT_EQ(Drain(*server_).size(), 4u);
  EXPECT_TRUE(Readable(worker_->wake_fd()));
  EXPECT_EQ(Drain(*worker_).size(), 4u);
  EXPECT_EQ(Drain(*server_).size(), 4u);
}

TEST_F(ChannelPair, CountsAsStuckWhenFarTooMuchWaits) {
  Open({.ring_bytes = kRing, .max_pending_bytes = 10000});
  int sent = 0;
  Status status;
  while ((status = server_->Send(Bytes(1000, sent))).ok()) ASSERT_LT(++sent, 100);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_GT(sent, 10);
  size_t got = 0;
  for (int round = 0; round < 100; ++round) {
    got += Drain(*worker_).size();
    Drain(*server_);
  }
  EXPECT_EQ(got, static_cast<size_t>(sent)) << "what was accepted arrives";
  EXPECT_TRUE(server_->Send(Bytes(1000, 0)).ok());
}

TEST_F(ChannelPair, AWorkerCannotMakeWakeUpsBlock) {
  // The worker makes its descriptor blocking and fills the pipe. If they shared the open file, the server
  // would block now.
  const std::vector<char> filling(1 << 20);
  ASSERT_GT(write(worker_->wake_fd(), filling.data(), filling.size()), 0);
  ASSERT_EQ(fcntl(worker_->wake_fd(), F_SETFL, 0), 0);
  EXPECT_NE(fcntl(server_->wake_fd(), F_GETFL) & O_NONBLOCK, 0);
  ASSERT_TRUE(worker_->reader().SleepOnEventFd());
  EXPECT_TRUE(server_->Send(Bytes(10, 1)).ok());
  EXPECT_EQ(Drain(*worker_).size(), 1u);
}

TEST_F(ChannelPair, QuietMessagesWakeNobody) {
  ASSERT_TRUE(worker_->reader().SleepOnEventFd());
  ASSERT_TRUE(server_->Send(Bytes(10, 1), true).ok());
  EXPECT_FALSE(Readable(worker_->wake_fd()));
  ASSERT_TRUE(server_->Send(Bytes(10, 2)).ok());
  EXPECT_TRUE(Readable(worker_->wake_fd()));
  EXPECT_EQ(Drain(*worker_).size(), 2u);
}

TEST_F(ChannelPair, InterruptEndsOneReceiveAfterTheMessagesThatAreThere) {
  Message message;
  ASSERT_TRUE(worker_->Send(Bytes(10, 1)).ok());
  server_->Interrupt();
  EXPECT_EQ(server_->Receive(message, kLong), Outcome::kMessage);
  EXPECT_EQ(server_->Receive(message, kLong), Outcome::kTimeout);
  ASSERT_TRUE(worker_->Send(Bytes(10, 2)).ok());
  EXPECT_EQ(server_->Receive(message, kLong), Outcome::kMessage);
}

TEST_F(ChannelPair, InterruptEndsAReceiveInTheMiddleOfAMessage) {
  ASSERT_TRUE(worker_->Send(Bytes(10 * kRing, 1)).ok());
  Message message;
  // The worker does nothing more, as if it had been killed.
  std::thread receiver([&] { EXPECT_EQ(server_->Receive(message, kLong), Outcome::kTimeout); });
  while (server_->header().to_server.sleeping != kRingOnFutex) std::this_thread::yield();
  server_->Interrupt();
  receiver.join();
}

TEST_F(ChannelPair, InterruptEndsAReceiveUnderEmptyMessagesWithoutEnd) {
  std::atomic<bool> stop{false};
  std::thread receiver([&] {
    Message message;
    EXPECT_EQ(server_->Receive(message, kLong), Outcome::kTimeout);
    stop = true;
  });
  auto& ring = server_->header().to_server;
  std::thread peer([&] {
    // The ring holds only zeros, that is, empty messages.
    while (!stop) {
      ring.head = ring.tail + kRing;
      if (ring.sleeping.exchange(kRingAwake) == kRingOnFutex) WakeFutex(&ring);
      std::this_thread::yield();
    }
  });
  while (ring.tail < 10 * kRing) std::this_thread::yield();
  server_->Interrupt();
  receiver.join();
  peer.join();
}

TEST_F(ChannelPair, SegmentsArriveBeforeTheMessagesThatNameThem) {
  const size_t before = OpenDescriptors();
  {
    auto ours = Segment::Create(5, 10000).value();
    std::memcpy(ours->base(), "tensor", 6);
    ASSERT_TRUE(server_->SendSegment(*ours, 42).ok());
    auto theirs = worker_->ReceiveSegment(true);
    ASSERT_TRUE(theirs.ok()) << theirs.status();
    EXPECT_EQ((*theirs)->id(), 42u);
    EXPECT_EQ((*theirs)->size(), ours->size());
    EXPECT_EQ(std::memcmp((*theirs)->base(), "tensor", 6), 0);
    EXPECT_EQ(fcntl((*theirs)->fd(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    auto none = worker_->ReceiveSegment(false);
    ASSERT_TRUE(none.ok());
    EXPECT_EQ(*none, nullptr);
  }
  EXPECT_EQ(OpenDescriptors(), before);
}

TEST_F(ChannelPair, ManySegmentsCanWaitAndThenItFailsWithoutBlocking) {
  auto segment = Segment::Create(5, 4096).value();
  int sent = 0;
  Status status;
  while (sent < 100000 && (status = server_->SendSegment(*segment, sent)).ok()) ++sent;
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_GE(sent, 200);
  RecordProperty("segments_in_flight", sent);
  for (int i = 0; i < sent; ++i) {
    auto got = worker_->ReceiveSegment(false);
    ASSERT_TRUE(got.ok() && *got != nullptr);
    EXPECT_EQ((*got)->id(), static_cast<uint32_t>(i));
  }
  EXPECT_TRUE(server_->SendSegment(*segment, 1).ok());
}

TEST_F(ChannelPair, HangUpIsSeenByBothSides) {
  auto segment = Segment::Create(1, 4096).value();
  ASSERT_TRUE(worker_->SendSegment(*segment, 1).ok());
  ASSERT_TRUE(worker_->Send(Bytes(10, 1)).ok());
  worker_.reset();
  EXPECT_TRUE(Readable(server_->socket()));
  EXPECT_EQ(Drain(*server_).size(), 1u) << "what was sent before is not lost";
  EXPECT_TRUE(server_->ReceiveSegment(false).ok());
  ExpectNoSegment(StatusCode::kUnavailable);
  EXPECT_EQ(server_->SendSegment(*segment, 1).code(), StatusCode::kUnavailable);
  EXPECT_TRUE(server_->Send(Bytes(10, 1)).ok()) << "the ring does not know";
}

TEST_F(ChannelPair, SegmentsOfAPeerThatEndedWithoutTakingOursAreThere) {
  auto segment = Segment::Create(1, 4096).value();
  ASSERT_TRUE(server_->SendSegment(*segment, 1).ok());
  ASSERT_TRUE(worker_->SendSegment(*segment, 2).ok());
  worker_.reset();
  auto got = server_->ReceiveSegment(false);
  ASSERT_TRUE(got.ok()) << got.status();
  ASSERT_NE(*got, nullptr);
  EXPECT_EQ((*got)->id(), 2u);
  ExpectNoSegment(StatusCode::kUnavailable);
}

TEST_F(ChannelPair, MemoryOfGpusGoesByItsDescriptorAndIsNotLookedAt) {
  const GpuUuid gpu = {1, 2, 3, 16};
  UniqueFd memory(memfd_create("device", MFD_CLOEXEC));  // of no use as a segment
  struct stat ours {};
  ASSERT_EQ(fstat(memory.get(), &ours), 0);
  auto segment = Segment::OfDevice(7, std::move(memory), size_t{2} << 20, gpu).value();
  ASSERT_TRUE(worker_->SendSegment(*segment, 9).ok());
  const auto got = server_->ReceiveSegment(true).value();
  EXPECT_TRUE(got->on_device());
  EXPECT_EQ(got->id(), 9u);
  EXPECT_EQ(got->size(), size_t{2} << 20);
  EXPECT_EQ(got->gpu(), gpu);
  struct stat theirs {};
  ASSERT_EQ(fstat(got->fd(), &theirs), 0);
  EXPECT_EQ(theirs.st_ino, ours.st_ino);
}

TEST_F(ChannelPair, HangUpEndsAWaitForASegment) {
  std::thread waiter([this] { EXPECT_FALSE(worker_->ReceiveSegment(true).ok()); });
  server_.reset();
  waiter.join();
}

TEST_F(ChannelPair, WhatIsNoSegmentIsRefusedAndLeavesNoDescriptor) {
  struct {
    uint64_t size;
    uint32_t id;
    uint32_t kind;
    GpuUuid gpu;
    uint64_t more;
  } note{4096, 1, 0, {}, 0};
  constexpr size_t kNote = 32;
  auto segment = Segment::Create(1, 4096).value();
  UniqueFd unsealed(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), 4096), 0);
  const int good = segment->fd();
  const size_t before = OpenDescriptors();

  SendRaw(&note, kNote, {});  // no descriptor
  ExpectNoSegment(StatusCode::kInvalidArgument);
  SendRaw(&note, kNote, {good, good});  // fits into the room for one
  ExpectNoSegment(StatusCode::kInvalidArgument);
  SendRaw(&note, kNote, {good, good, good, good});  // does not fit
  ExpectNoSegment(StatusCode::kInvalidArgument);
  SendRaw(&note, kNote - 1, {good});
  ExpectNoSegment(StatusCode::kInvalidArgument);
  SendRaw(&note, kNote + 8, {good});
  ExpectNoSegment(StatusCode::kInvalidArgument);
  SendRaw(&note, kNote, {unsealed.get()});
  ExpectNoSegment(StatusCode::kInvalidArgument);
  SendRaw(&note, kNote, {worker_->socket()});
  ExpectNoSegment(StatusCode::kInvalidArgument);
  note.size = 4097;
  SendRaw(&note, kNote, {good});
  ExpectNoSegment(StatusCode::kInvalidArgument);
  note.size = 0;
  SendRaw(&note, kNote, {good});
  ExpectNoSegment(StatusCode::kInvalidArgument);
  SendRaw(&note, 0, {good});  // an empty packet reads like a hang-up
  ExpectNoSegment(StatusCode::kUnavailable);
  EXPECT_EQ(OpenDescriptors(), before);

  note.size = 4096;
  SendRaw(&note, kNote, {good});
  EXPECT_TRUE(server_->ReceiveSegment(false).ok());
}

TEST_F(ChannelPair, CorruptedPositionsEndTheConnection) {
  server_->header().to_server.head = 3 * kRing;
  Message message;
  EXPECT_EQ(server_->Receive(message, kLong), Outcome::kCorrupted);
  server_->header().to_worker.tail = 8;
  EXPECT_EQ(server_->Send(Bytes(10, 1)).code(), StatusCode::kUnavailable);
  EXPECT_EQ(server_->Send(Bytes(10, 1)).code(), StatusCode::kUnavailable);
}

TEST_F(ChannelPair, NothingThatAPeerWritesCrashesOrHangsTheServer) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 300; ++round) {
    Open({.ring_bytes = kRing, .max_message = 20000, .max_pending_bytes = 100000});
    auto peer = Segment::Import(0, UniqueFd(dup(memory_.get())), sizeof(ChannelHeader) + 2 * kRing).value();
    auto* header = reinterpret_cast<ChannelHeader*>(peer->base());
    Message message;
    for (int i = 0; i < 200; ++i) {
      switch (random() % 8) {
        case 0:
          header->to_server.head += random() % 64 * 8;
          break;
        case 1:
          header->to_worker.tail += random() % 64 * 8;
          break;
        case 2:
          header->to_server.space_wanted = static_cast<uint32_t>(random());
          break;
        case 3:
          header->to_worker.sleeping = static_cast<uint32_t>(random() % 4);
          break;
        case 4:
          (void)worker_->Send(Bytes(1 + random() % 2000, 1)).ok();
          break;
        case 5: {
          auto word = static_cast<uint32_t>(random() % 512);
          std::memcpy(peer->base() + sizeof(ChannelHeader) + random() % (2 * kRing - 4), &word, sizeof(word));
          break;
        }
        default:
          (void)server_->Send(Bytes(1 + random() % 2000, 1)).ok();
          break;
      }
      if (server_->Receive(message, random() % 4 == 0 ? 1000 : 0) == Outcome::kCorrupted) break;
    }
  }
}

}  // namespace
}  // namespace braid
