// A peer that is killed at any point leaves no state behind.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <thread>

#include "base/clock.h"
#include "ipc/arena.h"
#include "ipc/channel.h"
#include "ipc/segment_map.h"

namespace braid {
namespace {

constexpr int kRounds = 1000;
constexpr int64_t kLong = 60'000'000'000;
using Message = std::vector<std::byte>;

enum class Kind : uint8_t {
  kEcho,    // bytes that come back
  kLent,    // memory of the server, to be filled and answered
  kHanded,  // memory of the worker, filled
};
struct Head {
  Kind kind;
  uint8_t fill;
  MemoryHandle handle;  // not for kEcho
};

Message Encode(const Head& head, size_t more = 0) {
  Message message(sizeof(head) + more, std::byte{head.fill});
  std::memcpy(message.data(), &head, sizeof(head));
  return message;
}

bool IsFilled(const std::byte* bytes, size_t size, uint8_t fill) {
  return std::all_of(bytes, bytes + size, [fill](std::byte b) { return b == std::byte{fill}; });
}

size_t OpenDescriptors() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

size_t MappedSegments() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:braid") != std::string::npos) ++count;
  }
  return count;
}

// Hands buffers over by their handles, and each segment once.
class Lender {
 public:
  explicit Lender(Channel& channel) : channel_(channel) {}
  bool Send(Kind kind, uint8_t fill, const Buffer& buffer) {
    const auto& segment = dynamic_cast<SegmentBlock*>(buffer.owner())->segment();
    if (handed_.insert(segment->id()).second && !channel_.SendSegment(*segment, segment->id()).ok())
      return false;
    const auto offset = static_cast<uint64_t>(buffer.data() - segment->base());
    return channel_.Send(Encode({kind, fill, {segment->id(), offset, buffer.size()}})).ok();
  }

 private:
  Channel& channel_;
  std::set<uint32_t> handed_;
};

size_t RandomSize(std::mt19937_64& random) { return 1 + random() % (random() % 4 ? 2000 : 150'000); }

// The process that is killed. It returns otherwise only on an error or when its parent is gone.
[[noreturn]] void RunPeer(Channel::WorkerEnd worker_end, uint64_t seed) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  auto opened = Channel::OpenWorkerEnd(std::move(worker_end));
  if (!opened.ok()) _exit(1);
  Channel& channel = **opened;
  std::mt19937_64 random(seed);
  SegmentIds ids;
  Arena arena(ids, {});
  Lender lender(channel);
  std::deque<Buffer> handed;
  SegmentMap lent;
  Message message;
  while (channel.Receive(message, kLong) == Channel::Outcome::kMessage) {
    Head head{};
    std::memcpy(&head, message.data(), sizeof(head));
    if (head.kind == Kind::kLent) {
      auto segment = lent.FindOrReceive(head.handle.segment, channel);
      if (!segment.ok() || !(*segment)->Contains(head.handle.offset, head.handle.size)) _exit(2);
      std::memset((*segment)->base() + head.handle.offset, head.fill, head.handle.size);
    }
    if (!channel.Send(message).ok()) _exit(3);
    if (random() % 2 == 0) {
      auto buffer = arena.Allocate(RandomSize(random));
      if (!buffer.ok()) _exit(4);
      std::memset(buffer->mutable_data(), head.fill, buffer->size());
      if (!lender.Send(Kind::kHanded, head.fill, *buffer)) _exit(5);
      handed.push_back(std::move(*buffer));
      if (handed.size() > 8) handed.pop_front();
    }
  }
  _exit(6);
}

// The server's side of one peer.
struct Round {
  std::unique_ptr<Channel> channel;
  SegmentMap handed;
  std::vector<Buffer> lent;  // the memory that Kind::kLent names, keyed by its answer
  std::atomic<int> answers{0};
  std::atomic<bool> peer_is_dead{false};

  void Check(const Message& message) {
    Head head{};
    ASSERT_GE(message.size(), sizeof(head));
    std::memcpy(&head, message.data(), sizeof(head));
    if (head.kind == Kind::kEcho) {
      ASSERT_TRUE(IsFilled(message.data() + sizeof(head), message.size() - sizeof(head), head.fill));
    } else if (head.kind == Kind::kHanded) {
      auto segment = handed.FindOrReceive(head.handle.segment, *channel);
      ASSERT_TRUE(segment.ok()) << segment.status();
      ASSERT_TRUE((*segment)->Contains(head.handle.offset, head.handle.size));
    } else {
      ASSERT_EQ(head.kind, Kind::kLent);
    }
    ++answers;
  }
  void Receive() {
    Message message;
    Channel::Outcome outcome{};
    while ((outcome = channel->Receive(message, kLong)) == Channel::Outcome::kMessage) Check(message);
    ASSERT_EQ(outcome, Channel::Outcome::kTimeout);
    ASSERT_TRUE(peer_is_dead) << "there was an end without an interrupt";
    // All complete messages that the peer sent are received; a partial one is not.
    while ((outcome = channel->Receive(message, 0)) == Channel::Outcome::kMessage) Check(message);
    ASSERT_EQ(outcome, Channel::Outcome::kTimeout);
  }
};

void RunRound(uint64_t seed, Arena& arena) {
  std::mt19937_64 random(seed);
  Channel::WorkerEnd worker_end;
  Round round;
  round.channel = Channel::CreateServerEnd({.ring_bytes = 16 << 10}, worker_end).value();

  // No other thread exists now, so the child may do what it likes.
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    round.channel.reset();
    RunPeer(std::move(worker_end), seed);
  }
  worker_end = {};
  UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  ASSERT_TRUE(process.valid());
  std::thread receiver([&round] { round.Receive(); });

  Lender lender(*round.channel);
  const auto messages = static_cast<int>(random() % 40);
  for (int i = 0; i < messages; ++i) {
    const auto fill = static_cast<uint8_t>(random());
    if (random() % 2 == 0) {
      // Some messages are several times as large as the ring.
      const size_t more = random() % (random() % 8 == 0 ? 60'000 : 500);
      ASSERT_TRUE(round.channel->Send(Encode({Kind::kEcho, fill, {}}, more), random() % 8 == 0).ok());
    } else {
      auto buffer = arena.Allocate(RandomSize(random));
      ASSERT_TRUE(buffer.ok()) << buffer.status();
      ASSERT_TRUE(lender.Send(Kind::kLent, fill, *buffer));
      round.lent.push_back(std::move(*buffer));
    }
  }
  // The kill comes after some answers and a short random delay. The time limits the wait for answers that
  // never come, since there may be fewer.
  const auto answers = static_cast<int>(random() % (messages + 1));
  const int64_t give_up_ns = SteadyNowNs() + 5'000'000;
  while (round.answers < answers && SteadyNowNs() < give_up_ns) std::this_thread::yield();
  const auto moment_ns = static_cast<int64_t>(random() % 100'000);
  for (const int64_t start = SteadyNowNs(); SteadyNowNs() - start < moment_ns;) {
  }
  ASSERT_EQ(kill(pid, SIGKILL), 0);

  pollfd ended{process.get(), POLLIN, 0};
  ASSERT_EQ(poll(&ended, 1, 60'000), 1);
  round.peer_is_dead = true;
  round.channel->Interrupt();
  receiver.join();
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  ASSERT_TRUE(WIFSIGNALED(status)) << "the peer found something wrong: " << WEXITSTATUS(status);

  // No other process can touch the lent memory now: it is written, returned and allocated again.
  for (Buffer& buffer : round.lent) {
    std::memset(buffer.mutable_data(), 0x5a, buffer.size());
    ASSERT_TRUE(IsFilled(buffer.data(), buffer.size(), 0x5a));
  }
  if (!round.lent.empty()) {
    const std::byte* place = round.lent.back().data();
    const size_t size = round.lent.back().size();
    round.lent.pop_back();
    auto again = arena.Allocate(size);
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(again->data(), place);
  }
}

TEST(ChannelKill, APeerThatIsKilledAnywhereWedgesNobodyAndLeavesNothing) {
  const size_t descriptors = OpenDescriptors();
  const size_t mapped = MappedSegments();
  int64_t longest_ns = 0;
  {
    SegmentIds ids;
    Arena arena(ids, {});
    for (int i = 0; i < kRounds && !HasFatalFailure(); ++i) {
      SCOPED_TRACE("seed " + std::to_string(i));
      const int64_t start = SteadyNowNs();
      RunRound(i, arena);
      longest_ns = std::max(longest_ns, SteadyNowNs() - start);
    }
    EXPECT_EQ(arena.usage().idle_bytes, arena.usage().segment_bytes);
  }
  RecordProperty("longest_round_us", std::to_string(longest_ns / 1000));
  EXPECT_LT(longest_ns, kLong / 2);
  EXPECT_EQ(OpenDescriptors(), descriptors);
  EXPECT_EQ(MappedSegments(), mapped);
}

}  // namespace
}  // namespace braid
