#include "ipc/ring.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "base/clock.h"

namespace braid {
namespace {

constexpr size_t kCapacity = 1024;
constexpr int64_t kLong = 60'000'000'000;
constexpr size_t kNoLimit = SIZE_MAX / 2;
using Outcome = RingReader::Outcome;

// The shared memory in the ring's layout. A test plays the hostile peer by writing to it.
struct Shared {
  RingHeader header{};
  alignas(64) std::byte bytes[kCapacity]{};

  void PutRecord(size_t at, uint32_t length, uint32_t flags) {
    std::memcpy(bytes + at, &length, sizeof(length));
    std::memcpy(bytes + at + 4, &flags, sizeof(flags));
  }
};
constexpr uint32_t kMore = 1;
constexpr uint32_t kSkip = 2;

std::vector<std::byte> Bytes(size_t size, uint8_t seed) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(seed + i * 7);
  return bytes;
}

class Ring : public testing::Test {
 protected:
  Shared shared_;
  RingWriter writer_{&shared_.header, shared_.bytes, kCapacity};
  RingReader reader_{&shared_.header, shared_.bytes, kCapacity};
  std::vector<std::byte> message_;

  Outcome Read(size_t max_message = kNoLimit) { return reader_.Read(message_, max_message); }
  // The system may end a wait spuriously.
  void WaitForInterrupt() {
    while (reader_.Wait(kLong)) {
    }
  }
};

TEST_F(Ring, AMessageDuringASpinNeedsNoWakeUp) {
  std::atomic<uint32_t> seen{kRingOnFutex};
  std::thread writer([&] {
    ASSERT_TRUE(writer_.Write(Bytes(10, 1), false));
    seen = writer_.Publish();
  });
  EXPECT_TRUE(reader_.Wait(kLong, kLong));
  writer.join();
  EXPECT_EQ(seen, kRingAwake);
  EXPECT_EQ(Read(), Outcome::kMessage);
}

TEST_F(Ring, AnInterruptEndsASpin) {
  reader_.Interrupt();
  EXPECT_FALSE(reader_.Wait(kLong, kLong));
}

TEST_F(Ring, AReaderThatSpunInVainSleeps) {
  // Short spins, then waits that spin only sometimes: the writer sees a sleeping reader.
  for (int i = 0; i < 8; ++i) reader_.Wait(1, 1);
  std::thread writer([&] {
    while (shared_.header.sleeping.load() != kRingOnFutex) std::this_thread::yield();
    ASSERT_TRUE(writer_.Write(Bytes(10, 1), false));
    if (writer_.Publish() == kRingOnFutex) WakeFutex(&shared_.header);
  });
  while (Read() != Outcome::kMessage) reader_.Wait(kLong, kLong);
  writer.join();
}

TEST_F(Ring, NothingIsSeenBeforeItIsPublished) {
  EXPECT_EQ(Read(), Outcome::kEmpty);
  ASSERT_TRUE(writer_.Write(Bytes(10, 1), false));
  EXPECT_EQ(Read(), Outcome::kEmpty);
  EXPECT_EQ(writer_.Publish(), kRingAwake);
  ASSERT_EQ(Read(), Outcome::kMessage);
  EXPECT_EQ(message_, Bytes(10, 1));
  EXPECT_EQ(Read(), Outcome::kEmpty);
}

TEST_F(Ring, CarriesEverySizeAtEveryPositionAroundTheEnd) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    const size_t size = random() % (writer_.max_record() + 1);
    const auto record = Bytes(size, static_cast<uint8_t>(i));
    ASSERT_TRUE(writer_.Write(record, false)) << "an empty ring has room for any record";
    writer_.Publish();
    ASSERT_EQ(Read(), Outcome::kMessage);
    ASSERT_EQ(message_, record);
  }
}

TEST_F(Ring, KeepsOrderWhenItRunsFull) {
  std::mt19937_64 random(2);
  uint8_t written = 0;
  uint8_t read = 0;
  for (int round = 0; round < 3000; ++round) {
    while (writer_.Write(Bytes(random() % 200 + 1, written), false)) ++written;
    EXPECT_FALSE(writer_.corrupted());
    writer_.Publish();
    for (size_t n = random() % 6; n > 0 && read != written; --n) {
      ASSERT_EQ(Read(), Outcome::kMessage);
      ASSERT_EQ(message_, Bytes(message_.size(), read++));
    }
  }
}

TEST_F(Ring, CanBeFilledToTheLastByte) {
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(writer_.Write(Bytes(kCapacity / 4 - 8, 1), false));
  EXPECT_FALSE(writer_.Write({}, false));
  writer_.Publish();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Read(), Outcome::kMessage);
  EXPECT_EQ(Read(), Outcome::kEmpty);
  EXPECT_TRUE(writer_.Write({}, false));
}

TEST_F(Ring, PutsPartsTogether) {
  const auto whole = Bytes(700, 5);
  const std::span<const std::byte> span(whole);
  ASSERT_TRUE(writer_.Write(span.first(250), true));
  ASSERT_TRUE(writer_.Write(span.subspan(250, 250), true));
  writer_.Publish();
  EXPECT_EQ(Read(), Outcome::kEmpty);
  ASSERT_TRUE(writer_.Write(span.subspan(500), false));
  ASSERT_TRUE(writer_.Write(Bytes(3, 9), false));
  writer_.Publish();
  ASSERT_EQ(Read(), Outcome::kMessage);
  EXPECT_EQ(message_, whole);
  ASSERT_EQ(Read(), Outcome::kMessage);
  EXPECT_EQ(message_, Bytes(3, 9));
}

TEST_F(Ring, RefusesMessageLongerThanAllowed) {
  ASSERT_TRUE(writer_.Write(Bytes(101, 1), false));
  writer_.Publish();
  EXPECT_EQ(Read(100), Outcome::kCorrupted);
}

TEST_F(Ring, RefusesPartsThatTogetherAreLongerThanAllowed) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(writer_.Write(Bytes(50, 1), i != 2));
  writer_.Publish();
  EXPECT_EQ(Read(149), Outcome::kCorrupted);
}

TEST_F(Ring, AcceptsMessageAsLongAsAllowed) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(writer_.Write(Bytes(50, 1), i != 2));
  writer_.Publish();
  EXPECT_EQ(Read(150), Outcome::kMessage);
}

TEST_F(Ring, ReaderRefusesHeadBeyondCapacity) {
  shared_.header.head = kCapacity + 8;
  EXPECT_EQ(Read(), Outcome::kCorrupted);
  shared_.header.head = UINT64_MAX - 7;
  EXPECT_EQ(Read(), Outcome::kCorrupted);
}

TEST_F(Ring, ReaderRefusesMisalignedHead) {
  shared_.header.head = 12;
  EXPECT_EQ(Read(), Outcome::kCorrupted);
}

TEST_F(Ring, ReaderRefusesHeadThatGoesBack) {
  writer_.Write(Bytes(40, 1), false);
  writer_.Publish();
  ASSERT_EQ(Read(), Outcome::kMessage);
  shared_.header.head = 8;
  EXPECT_EQ(Read(), Outcome::kCorrupted);
}

TEST_F(Ring, RefusesLengthBeyondHead) {
  shared_.PutRecord(0, 9, 0);
  shared_.header.head = 16;
  EXPECT_EQ(Read(), Outcome::kCorrupted);
}

TEST_F(Ring, RefusesLengthBeyondEnd) {
  writer_.Write(Bytes(248, 1), false);
  writer_.Publish();
  ASSERT_EQ(Read(), Outcome::kMessage);
  // The whole ring is said to be full, but the record would reach beyond its end.
  shared_.PutRecord(256, kCapacity - 256, 0);
  shared_.header.head = 256 + kCapacity;
  EXPECT_EQ(Read(), Outcome::kCorrupted);
}

TEST_F(Ring, RefusesAbsurdLengths) {
  shared_.header.head = kCapacity;
  for (uint32_t length : {UINT32_MAX, UINT32_MAX - 7, UINT32_MAX - 8, uint32_t{1} << 31, uint32_t{kCapacity},
                          uint32_t{kCapacity - 7}}) {
    shared_.PutRecord(0, length, 0);
    EXPECT_EQ(Read(), Outcome::kCorrupted) << length;
  }
}

TEST_F(Ring, RefusesUnknownFlags) {
  shared_.header.head = 16;
  for (uint32_t flags : {kSkip | kMore, 4u, 0x80000000u, UINT32_MAX}) {
    shared_.PutRecord(0, 8, flags);
    EXPECT_EQ(Read(), Outcome::kCorrupted) << flags;
  }
}

TEST_F(Ring, RefusesSkipBeyondHead) {
  writer_.Write(Bytes(8, 1), false);
  writer_.Publish();
  ASSERT_EQ(Read(), Outcome::kMessage);
  shared_.PutRecord(16, 0, kSkip);
  shared_.header.head = 32;
  EXPECT_EQ(Read(), Outcome::kCorrupted);
}

TEST_F(Ring, RefusesSkipOfTheWholeRing) {
  shared_.PutRecord(0, 0, kSkip);
  shared_.header.head = kCapacity;
  EXPECT_EQ(Read(), Outcome::kCorrupted);
}

TEST_F(Ring, RefusesPartsWithoutBytes) {
  shared_.PutRecord(0, 0, kMore);
  shared_.header.head = 8;
  EXPECT_EQ(Read(), Outcome::kCorrupted);
}

TEST_F(Ring, WriterRefusesTailThatMakesNoSense) {
  for (uint64_t tail : {uint64_t{8}, uint64_t{4}, UINT64_MAX, UINT64_MAX - kCapacity - 7}) {
    RingWriter writer(&shared_.header, shared_.bytes, kCapacity);
    shared_.header.tail = tail;
    EXPECT_FALSE(writer.Write(Bytes(8, 1), false));
    EXPECT_TRUE(writer.corrupted()) << tail;
  }
}

TEST_F(Ring, NothingThatAPeerWritesMakesTheReaderLeaveTheRing) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 30000; ++round) {
    auto shared = std::make_unique<Shared>();
    RingReader reader(&shared->header, shared->bytes, kCapacity);
    // Mostly plausible records, so that the later checks are reached.
    for (size_t at = 0; at < kCapacity;) {
      const auto length = static_cast<uint32_t>(random() % 20 == 0 ? random() : random() % 300);
      const auto flags = static_cast<uint32_t>(random() % 20 == 0 ? random() : random() % 3);
      shared->PutRecord(at, length, flags);
      at += std::min<size_t>(8 + (size_t{length} + 7) / 8 * 8, kCapacity);
    }
    shared->header.head = random() % (kCapacity / 8 + 1) * 8;
    for (int i = 0; i < 200; ++i) {
      const Outcome outcome = reader.Read(message_, 2000);
      if (outcome == Outcome::kCorrupted) break;
      ASSERT_LE(message_.size(), 2000u);
      if (outcome == Outcome::kEmpty) shared->header.head += random() % 64 * 8;
    }
  }
}

TEST_F(Ring, QuietMessagesLeaveTheReaderAsleep) {
  ASSERT_TRUE(reader_.SleepOnEventFd());
  writer_.Write(Bytes(8, 1), false);
  writer_.PublishQuietly();
  EXPECT_EQ(shared_.header.sleeping, kRingOnEventFd);
  EXPECT_EQ(writer_.Publish(), kRingOnEventFd);
  EXPECT_EQ(writer_.Publish(), kRingAwake) << "only one waker pays";
  EXPECT_EQ(Read(), Outcome::kMessage);
}

TEST_F(Ring, DoesNotSleepOverAMessage) {
  writer_.Write(Bytes(8, 1), false);
  writer_.PublishQuietly();
  EXPECT_FALSE(reader_.SleepOnEventFd());
  EXPECT_EQ(shared_.header.sleeping, kRingAwake);
  EXPECT_TRUE(reader_.Wait(kLong));
}

TEST_F(Ring, SpaceIsToldOfWhenHalfTheRingIsFree) {
  EXPECT_FALSE(reader_.TakeSpaceWanted());
  while (writer_.Write(Bytes(120, 1), false)) {
  }
  writer_.Publish();
  writer_.WantSpace();
  int read = 0;
  while (!reader_.TakeSpaceWanted()) {
    ASSERT_EQ(Read(), Outcome::kMessage);
    ++read;
  }
  EXPECT_EQ(read, 4);
  EXPECT_FALSE(reader_.TakeSpaceWanted());
}

TEST_F(Ring, WaitEndsWithItsTime) {
  const int64_t start = SteadyNowNs();
  EXPECT_TRUE(reader_.Wait(2'000'000));
  EXPECT_TRUE(reader_.Wait(0));
  EXPECT_TRUE(reader_.Wait(-1));
  EXPECT_LT(SteadyNowNs() - start, kLong);
}

TEST_F(Ring, InterruptBeforeWaitEndsOneWait) {
  reader_.Interrupt();
  EXPECT_FALSE(reader_.Wait(kLong));
  EXPECT_TRUE(reader_.Wait(1000));
  reader_.Interrupt();
  EXPECT_TRUE(reader_.TakeInterrupt());
  EXPECT_FALSE(reader_.TakeInterrupt());
}

TEST_F(Ring, InterruptIsNotLostToAMessageOrAPartOfOne) {
  writer_.Write(Bytes(8, 1), false);
  writer_.Write(Bytes(8, 1), true);
  writer_.Publish();
  reader_.Interrupt();
  EXPECT_EQ(Read(), Outcome::kMessage);
  EXPECT_EQ(Read(), Outcome::kEmpty);
  EXPECT_FALSE(reader_.Wait(kLong));
}

TEST_F(Ring, InterruptLeavesTheAnnouncementOfAnEventLoop) {
  ASSERT_TRUE(reader_.SleepOnEventFd());
  reader_.Interrupt();
  EXPECT_EQ(writer_.Publish(), kRingOnEventFd);
}

TEST_F(Ring, InterruptEndsTheWaitOfAnotherThread) {
  for (int i = 0; i < 500; ++i) {
    std::thread sleeper([this] { WaitForInterrupt(); });
    if (i % 2 == 0) {
      while (shared_.header.sleeping != kRingOnFutex) std::this_thread::yield();
    }
    reader_.Interrupt();
    sleeper.join();
  }
}

TEST_F(Ring, InterruptEndsTheWaitThatADeadPeerWasAboutToEnd) {
  for (int i = 0; i < 500; ++i) {
    std::thread sleeper([this] { WaitForInterrupt(); });
    // The peer takes the reader's announcement and is killed before it can wake the reader.
    while (shared_.header.sleeping != kRingOnFutex) std::this_thread::yield();
    if (i % 2 == 0) std::this_thread::yield();
    shared_.header.sleeping.store(kRingAwake);
    reader_.Interrupt();
    sleeper.join();
  }
}

// Both sides in one address space and at one address, so that a thread sanitizer sees every access.
TEST_F(Ring, TwoThreadsPassMessagesWithoutLosingAWakeUp) {
  constexpr int kMessages = 60000;
  std::thread reader_thread([this] {
    std::mt19937_64 random(4);
    std::vector<std::byte> message;
    for (int i = 0; i < kMessages;) {
      switch (reader_.Read(message, kNoLimit)) {
        case Outcome::kMessage:
          ASSERT_EQ(message, Bytes(message.size(), static_cast<uint8_t>(i)));
          ++i;
          if (random() % 16 == 0) std::this_thread::yield();
          break;
        case Outcome::kEmpty: {
          const int64_t start = SteadyNowNs();
          reader_.Wait(kLong);
          ASSERT_LT(SteadyNowNs() - start, kLong);
          break;
        }
        case Outcome::kCorrupted:
          FAIL();
      }
    }
  });
  std::mt19937_64 random(5);
  for (int i = 0; i < kMessages;) {
    const auto whole = Bytes(random() % 250 + 2, static_cast<uint8_t>(i));
    const std::span<const std::byte> span(whole);
    const size_t cut = random() % 4 == 0 ? span.size() / 2 : span.size();
    for (bool rest : {false, true}) {
      if (rest && cut == span.size()) break;
      const auto part = rest ? span.subspan(cut) : span.first(cut);
      while (!writer_.Write(part, !rest && cut != span.size())) {
        ASSERT_FALSE(writer_.corrupted());
        if (writer_.Publish() == kRingOnFutex) WakeFutex(&shared_.header);
        std::this_thread::yield();
      }
    }
    if (writer_.Publish() == kRingOnFutex) WakeFutex(&shared_.header);
    if (random() % 8 == 0) std::this_thread::yield();
    ++i;
  }
  reader_thread.join();
}

}  // namespace
}  // namespace braid
