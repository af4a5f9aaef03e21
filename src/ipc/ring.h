// Ring: a one-way message queue in shared memory, with one writing and one reading process.
//
// Neither side trusts the other. Each keeps its position in private memory, reads the peer's once, and checks
// it. A message is copied out before it is decoded. There is no lock, so a peer that is killed at any point
// cannot block the other.
//
// Memory order: the writer stores a message's bytes, then `head` with release. The reader loads `head` with
// acquire, copies, then stores `tail` with release, which frees the bytes. For the wake-up, reader and writer
// do the two halves of Dekker's handshake with sequentially consistent operations. The reader stores
// `sleeping` and then loads `head`; the writer stores `head` and then loads `sleeping`. At least one of them
// sees the other. For a full ring they do the same with `space_wanted` and `tail`.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"

namespace braid {

// The part of a ring that lies in shared memory before its bytes.
struct RingHeader {
  alignas(64) std::atomic<uint64_t> head;      // bytes ever written; stored by the writer
  alignas(64) std::atomic<uint64_t> tail;      // bytes ever read; stored by the reader
  alignas(64) std::atomic<uint32_t> sleeping;  // how the reader sleeps, see RingSleep; a futex word
  std::atomic<uint32_t> space_wanted;          // the writer has messages that did not fit
  std::atomic<uint32_t> fork_signals;          // counts requests of forks, see RequestForkChannelOn()
};
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

enum RingSleep : uint32_t {
  kRingAwake = 0,
  kRingOnFutex = 1,
  kRingOnEventFd = 2,  // the reader polls an event loop
};

class RingWriter {
 public:
  // `capacity` is the number of bytes after the header, a power of two.
  RingWriter(RingHeader* header, std::byte* bytes, size_t capacity);

  // The largest part of a message that fits in one record.
  size_t max_record() const { return capacity_ / 4; }
  // Writes one record. Returns false if there is no room now, or the reader's position is invalid (then
  // `corrupted()`). `more` tells the reader that the message continues in the next record. The record is
  // invisible until Publish().
  bool Write(std::span<const std::byte> record, bool more);
  // Makes the records visible. Returns how the caller must wake the reader; kRingAwake if it is awake.
  RingSleep Publish();
  // Makes the records visible without waking the reader: for messages that can wait until another one wakes
  // it.
  void PublishQuietly();
  // Asks the reader for a wake-up when it has made room. The caller must then call Write() again, since the
  // room may exist already.
  void WantSpace();

  bool corrupted() const { return corrupted_; }

 private:
  RingHeader* const header_;
  std::byte* const bytes_;
  const size_t capacity_;
  uint64_t head_ = 0;  // private; the shared head is never read back
  bool corrupted_ = false;
};

class RingReader {
 public:
  RingReader(RingHeader* header, std::byte* bytes, size_t capacity);

  enum class Outcome : unsigned char {
    kMessage,
    kEmpty,
    kCorrupted,  // the peer broke the protocol; the caller must close the connection
  };
  // Takes the next message. `message` is replaced; its capacity is reused. `max_message` limits the size of a
  // message that the peer can send in parts.
  Outcome Read(std::vector<std::byte>& message, size_t max_message);

  // Returns whether the writer has asked for a wake-up since the last call and at least half of the ring is
  // free; less room is not worth a wake-up. Call it after the last Read() before a sleep.
  bool TakeSpaceWanted();

  // Returns the bytes ever written, by the writer's count, and the bytes of the messages read so far.
  // written(): any thread.
  uint64_t written() const { return header_->head.load(std::memory_order_acquire); }
  uint64_t read() const { return tail_; }

  // Sleeps until the writer publishes, a fork asks for a channel, Interrupt() is called, or the time is over.
  // May return early. Returns false after an interrupt. A fork's signal also makes it return false, until
  // TakeForkSignal() takes it.
  //
  // Polls for `spin_ns` first: the writer then need not wake this thread, which costs 20 to 40 us on an idle
  // core. If messages come later than that, few of the next waits poll.
  bool Wait(int64_t timeout_ns, int64_t spin_ns = 0);
  // Announces that the reader sleeps in an event loop. Returns false, and stays awake, if there are messages
  // to read.
  bool SleepOnEventFd();
  // Called after the event loop has woken the reader.
  void Awake() { header_->sleeping.store(kRingAwake, std::memory_order_seq_cst); }
  // Ends the current Wait() of another thread of this process, or else its next one. Works whatever state a
  // dead peer has left in the ring. Has no effect on a reader that sleeps in an event loop.
  void Interrupt();
  // Returns whether there was an Interrupt() that no Wait() has reported yet, and marks it as reported.
  bool TakeInterrupt();
  // Returns whether a fork has asked for a channel since the last call. The reading thread only.
  bool TakeForkSignal();

 private:
  bool ForkSignalled() const {
    return header_->fork_signals.load(std::memory_order_seq_cst) != fork_signals_;
  }
  bool Pending() const { return header_->head.load(std::memory_order_seq_cst) != tail_; }
  // Returns whether a message, a fork's signal or an interrupt came within `spin_ns`.
  bool Spin(int64_t spin_ns);

  RingHeader* const header_;
  const std::byte* const bytes_;
  const size_t capacity_;
  uint64_t tail_ = 0;           // private
  uint32_t fork_signals_ = 0;   // those already taken
  uint32_t spins_in_vain_ = 0;  // in a row
  uint32_t spins_left_out_ = 0;
  std::vector<std::byte> partial_;
  bool in_partial_ = false;
  std::atomic<bool> interrupted_{false};
};

// Wakes the reader with a fork's signal. Any process that maps the ring may call it: a fork must not write
// messages to it.
void RequestForkChannelOn(RingHeader* header);

// Wakes a reader that sleeps on the futex of `header`.
void WakeFutex(RingHeader* header);

}  // namespace braid
