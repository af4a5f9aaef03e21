#include "ipc/ring.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>
#include <utility>

#include "base/check.h"
#include "base/clock.h"

namespace braid {
namespace {

// Precedes each record, at a multiple of 8.
struct RecordHead {
  uint32_t length;  // of the payload
  uint32_t flags;
};
constexpr uint32_t kFlagMore = 1;
constexpr uint32_t kFlagSkip = 2;  // not a record: continue at the start of the ring

// After so many spins in a row without a message, only one wait of kSpinsLeftOut spins.
constexpr uint32_t kSpinsInVain = 8;
constexpr uint32_t kSpinsLeftOut = 16;
constexpr int kLooksBetweenTimes = 32;

// Lets the other thread of this core run, and saves energy, within a loop that polls.
void Relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

constexpr size_t Padded(size_t length) { return (length + 7) / 8 * 8; }

}  // namespace

RingWriter::RingWriter(RingHeader* header, std::byte* bytes, size_t capacity)
    : header_(header), bytes_(bytes), capacity_(capacity) {
  BRAID_CHECK(capacity >= 64 && (capacity & (capacity - 1)) == 0);
}

bool RingWriter::Write(std::span<const std::byte> record, bool more) {
  BRAID_CHECK(record.size() <= max_record());
  const uint64_t tail = header_->tail.load(std::memory_order_seq_cst);
  if (head_ - tail > capacity_ || tail % 8 != 0) {
    corrupted_ = true;
    return false;
  }
  const size_t need = sizeof(RecordHead) + Padded(record.size());
  size_t at = head_ & (capacity_ - 1);
  size_t skip = 0;
  if (capacity_ - at < need) skip = capacity_ - at;
  if (capacity_ - (head_ - tail) < skip + need) return false;
  if (skip != 0) {
    const RecordHead head{0, kFlagSkip};
    std::memcpy(bytes_ + at, &head, sizeof(head));
    head_ += skip;
    at = 0;
  }
  const RecordHead head{static_cast<uint32_t>(record.size()), more ? kFlagMore : 0};
  std::memcpy(bytes_ + at, &head, sizeof(head));
  if (!record.empty()) std::memcpy(bytes_ + at + sizeof(head), record.data(), record.size());
  head_ += need;
  return true;
}

RingSleep RingWriter::Publish() {
  header_->head.store(head_, std::memory_order_seq_cst);
  if (header_->sleeping.load(std::memory_order_seq_cst) == kRingAwake) return kRingAwake;
  // Only one waker pays for the system call.
  return static_cast<RingSleep>(header_->sleeping.exchange(kRingAwake, std::memory_order_seq_cst));
}

void RingWriter::WantSpace() { header_->space_wanted.store(1, std::memory_order_seq_cst); }

void RingWriter::PublishQuietly() { header_->head.store(head_, std::memory_order_release); }

RingReader::RingReader(RingHeader* header, std::byte* bytes, size_t capacity)
    : header_(header), bytes_(bytes), capacity_(capacity) {
  BRAID_CHECK(capacity >= 64 && (capacity & (capacity - 1)) == 0);
}

RingReader::Outcome RingReader::Read(std::vector<std::byte>& message, size_t max_message) {
  while (true) {
    const uint64_t head = header_->head.load(std::memory_order_acquire);
    const uint64_t there = head - tail_;
    if (there == 0) return Outcome::kEmpty;
    if (there > capacity_ || there % 8 != 0) return Outcome::kCorrupted;
    const size_t at = tail_ & (capacity_ - 1);
    RecordHead record{};
    std::memcpy(&record, bytes_ + at, sizeof(record));
    // A correct writer never skips from the start of the ring, and every part of a message has bytes.
    // Refusing anything else keeps a peer from holding the reader in this loop.
    if (record.flags == kFlagSkip) {
      if (at == 0 || there < capacity_ - at) return Outcome::kCorrupted;
      tail_ += capacity_ - at;
      header_->tail.store(tail_, std::memory_order_seq_cst);
      continue;
    }
    const size_t need = sizeof(RecordHead) + Padded(record.length);
    if ((record.flags & ~kFlagMore) != 0 || record.length > capacity_ || need > there ||
        need > capacity_ - at) {
      return Outcome::kCorrupted;
    }
    const bool more = (record.flags & kFlagMore) != 0;
    if (record.length == 0 && (more || in_partial_)) return Outcome::kCorrupted;
    const std::byte* payload = bytes_ + at + sizeof(RecordHead);
    std::vector<std::byte>& into = in_partial_ || more ? partial_ : message;
    if (!in_partial_) into.clear();
    if (into.size() + record.length > max_message) return Outcome::kCorrupted;
    into.insert(into.end(), payload, payload + record.length);
    tail_ += need;
    header_->tail.store(tail_, std::memory_order_seq_cst);
    if (more) {
      in_partial_ = true;
      continue;
    }
    if (in_partial_) {
      in_partial_ = false;
      message = std::move(partial_);
      partial_ = {};
    }
    return Outcome::kMessage;
  }
}

bool RingReader::TakeSpaceWanted() {
  // Either this sees `space_wanted`, or the writer's Write() after WantSpace() sees the room made here.
  if (header_->space_wanted.load(std::memory_order_seq_cst) == 0) return false;
  if (header_->head.load(std::memory_order_relaxed) - tail_ > capacity_ / 2) return false;
  return header_->space_wanted.exchange(0, std::memory_order_seq_cst) != 0;
}

bool RingReader::Spin(int64_t spin_ns) {
  if (spins_in_vain_ >= kSpinsInVain && ++spins_left_out_ % kSpinsLeftOut != 0) return false;
  const int64_t end_ns = SteadyNowNs() + spin_ns;
  do {
    for (int i = 0; i < kLooksBetweenTimes; ++i) {
      if (Pending() || ForkSignalled() || interrupted_.load(std::memory_order_relaxed)) {
        spins_in_vain_ = 0;
        return true;
      }
      Relax();
    }
  } while (SteadyNowNs() < end_ns);
  ++spins_in_vain_;
  return false;
}

bool RingReader::Wait(int64_t timeout_ns, int64_t spin_ns) {
  if (spin_ns > 0 && Spin(std::min(spin_ns, timeout_ns))) return !TakeInterrupt() && !ForkSignalled();
  header_->sleeping.store(kRingOnFutex, std::memory_order_seq_cst);
  if (timeout_ns > 0 && !Pending() && !ForkSignalled() && !interrupted_.load(std::memory_order_seq_cst)) {
    const timespec timeout{timeout_ns / 1'000'000'000, timeout_ns % 1'000'000'000};
    // Returns at once if `sleeping` has changed since, so a wake-up cannot be missed.
    syscall(SYS_futex, &header_->sleeping, FUTEX_WAIT, kRingOnFutex, &timeout, nullptr, 0);
  }
  Awake();
  return !TakeInterrupt() && !ForkSignalled();
}

bool RingReader::SleepOnEventFd() {
  header_->sleeping.store(kRingOnEventFd, std::memory_order_seq_cst);
  if (!Pending()) return true;
  Awake();
  return false;
}

void RingReader::Interrupt() {
  interrupted_.store(true, std::memory_order_seq_cst);
  // A reader about to wait on the futex must find another value there.
  uint32_t expected = kRingOnFutex;
  header_->sleeping.compare_exchange_strong(expected, kRingAwake, std::memory_order_seq_cst);
  // Always wake: a peer may have died between taking the reader's announcement and waking it.
  WakeFutex(header_);
}

bool RingReader::TakeInterrupt() {
  return interrupted_.load(std::memory_order_relaxed) &&
         interrupted_.exchange(false, std::memory_order_seq_cst);
}

bool RingReader::TakeForkSignal() {
  const uint32_t fork_signals = header_->fork_signals.load(std::memory_order_seq_cst);
  return std::exchange(fork_signals_, fork_signals) != fork_signals;
}

void RequestForkChannelOn(RingHeader* header) {
  // The same protocol as for a writer that publishes.
  header->fork_signals.fetch_add(1, std::memory_order_seq_cst);
  if (header->sleeping.load(std::memory_order_seq_cst) == kRingOnFutex &&
      header->sleeping.exchange(kRingAwake, std::memory_order_seq_cst) == kRingOnFutex) {
    WakeFutex(header);
  }
}

void WakeFutex(RingHeader* header) {
  syscall(SYS_futex, &header->sleeping, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace braid
