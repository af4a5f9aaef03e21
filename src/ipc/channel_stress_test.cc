#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include "ipc/channel.h"

namespace braid {
namespace {

constexpr int64_t kLong = 120'000'000'000;
constexpr int kSenders = 3;
constexpr uint32_t kMessagesPerSender = 400;
using Message = std::vector<std::byte>;

// The beginning of every message that is long enough; shorter ones are only counted.
struct Stamp {
  uint32_t sender;
  uint32_t number;
  uint64_t hash;  // of the bytes after it
};

uint64_t HashOf(std::span<const std::byte> bytes) {
  uint64_t hash = bytes.size();
  size_t at = 0;
  for (uint64_t word = 0; at + sizeof(word) <= bytes.size(); at += sizeof(word)) {
    std::memcpy(&word, bytes.data() + at, sizeof(word));
    hash = (hash ^ word) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
  }
  for (; at < bytes.size(); ++at) hash = (hash ^ static_cast<uint64_t>(bytes[at])) * 0x100000001b3;
  return hash;
}

Message MakeMessage(uint32_t sender, uint32_t number, size_t size, std::mt19937_64& random) {
  Message message(size);
  for (size_t at = 0; at + 8 <= size; at += 8) {
    const uint64_t word = random();
    std::memcpy(message.data() + at, &word, sizeof(word));
  }
  if (size >= sizeof(Stamp)) {
    const Stamp stamp{sender, number, HashOf(std::span(message).subspan(sizeof(Stamp)))};
    std::memcpy(message.data(), &stamp, sizeof(stamp));
  }
  return message;
}

// Mostly small, some much larger than the ring, up to 1 MiB.
size_t RandomSize(std::mt19937_64& random) {
  switch (random() % 16) {
    case 0:
      return 1 + random() % (size_t{1} << 20);
    case 1:
    case 2:
      return 1 + random() % (size_t{64} << 10);
    case 3:
      return 1 + random() % sizeof(Stamp);
    default:
      return sizeof(Stamp) + random() % 2000;
  }
}

void Send(Channel& channel, uint32_t sender, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (uint32_t number = 0; number < kMessagesPerSender; ++number) {
    const Message message = MakeMessage(sender, number, RandomSize(random), random);
    ASSERT_TRUE(channel.Send(message, random() % 8 == 0).ok());
    for (size_t n = random() % 4; n > 0; --n) std::this_thread::yield();
    if (random() % 16 == 0) channel.Interrupt();
  }
  // The receiver would wait for a quiet last message.
  const Message last = MakeMessage(sender, kMessagesPerSender, sizeof(Stamp), random);
  ASSERT_TRUE(channel.Send(last).ok());
}

// Receives all messages of the other side's senders, and then serves that side until `done` is 2.
void Receive(Channel& channel, uint64_t seed, std::atomic<int>& done) {
  std::mt19937_64 random(seed);
  Message message;
  uint32_t received = 0;
  uint32_t at_least[kSenders] = {};
  while (received < kSenders * (kMessagesPerSender + 1)) {
    const Channel::Outcome outcome = channel.Receive(message, kLong);
    ASSERT_NE(outcome, Channel::Outcome::kCorrupted);
    if (outcome == Channel::Outcome::kTimeout) continue;
    ++received;
    if (message.size() >= sizeof(Stamp)) {
      Stamp stamp{};
      std::memcpy(&stamp, message.data(), sizeof(stamp));
      ASSERT_LT(stamp.sender, uint32_t{kSenders});
      ASSERT_GE(stamp.number, at_least[stamp.sender]) << "messages of one sender keep their order";
      at_least[stamp.sender] = stamp.number + 1;
      ASSERT_EQ(stamp.hash, HashOf(std::span(message).subspan(sizeof(Stamp))));
    }
    if (random() % 32 == 0) std::this_thread::yield();
  }
  for (uint32_t next : at_least) EXPECT_EQ(next, kMessagesPerSender + 1);
  ++done;
  while (done < 2) {
    ASSERT_NE(channel.Receive(message, 1'000'000), Channel::Outcome::kMessage) << "there was one too many";
  }
}

TEST(ChannelStress, ManySendersBothWaysWithMessagesOfAllSizes) {
  Channel::WorkerEnd worker_end;
  auto server = Channel::CreateServerEnd({.ring_bytes = size_t{64} << 10}, worker_end).value();
  auto worker = Channel::OpenWorkerEnd(std::move(worker_end)).value();
  std::atomic<int> done{0};
  std::vector<std::thread> threads;
  for (Channel* end : {server.get(), worker.get()}) {
    const uint64_t seed = end == server.get() ? 100 : 200;
    threads.emplace_back([=, &done] { Receive(*end, seed, done); });
    for (uint32_t sender = 0; sender < kSenders; ++sender) {
      threads.emplace_back([=] { Send(*end, sender, seed + sender + 1); });
    }
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace braid
