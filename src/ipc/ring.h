// Ring: a one-way queue of messages in shared memory with one writing and one reading process.
//
// Neither side trusts the other: each keeps its own position in private memory, reads the peer's once, and
// checks it; a message is copied out before it is looked at. There is no lock, so a peer that is killed at
// any point leaves nothing behind that could be waited for.
//
// Memory order: the writer stores a message's bytes, then `head` with release; the reader loads `head` with
// acquire, copies, then stores `tail` with release, which gives the bytes back. For the wake-up, reader and
// writer do the two halves of Dekker's handshake with sequentially consistent operations: the reader stores
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

// The part of a ring that lies in shared memory, in front of its bytes.
struct RingHeader {
  alignas(64) std::atomic<uint64_t> head;      // bytes ever written; the writer's
  alignas(64) std::atomic<uint64_t> tail;      // bytes ever read; the reader's
  alignas(64) std::atomic<uint32_t> sleeping;  // how the reader sleeps, see RingSleep; a futex word
  std::atomic<uint32_t> space_wanted;          // the writer has messages that did not fit
  std::atomic<uint32_t> fork_signals;          // counts the requests of forks, see RequestForkChannelOn()
};
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

enum RingSleep : uint32_t {
  kRingAwake = 0,
  kRingOnFutex = 1,
  kRingOnEventFd = 2,  // the reader polls an event loop
};

class RingWriter {
 public:
  // `capacity` is a power of two of bytes that follow the header.
  RingWriter(RingHeader* header, std::byte* bytes, size_t capacity);

  // The largest part of a message that one record takes.
  size_t max_record() const { return capacity_ / 4; }
  // Writes one record; false when there is no room for it now, or the reader's position makes no sense (then
  // `corrupted()`). `more` tells the reader that the message goes on in the next record. Not visible before
  // Publish().
  bool Write(std::span<const std::byte> record, bool more);
  // Makes the records visible. Returns how the reader is to be woken: it is not, when it is awake.
  RingSleep Publish();
  // Makes the records visible without waking: for messages that can wait until the reader wakes for another.
  void PublishQuietly();
  // Asks the reader to wake us when it has made room. To be followed by another Write(): the room may be
  // there already.
  void WantSpace();

  bool corrupted() const { return corrupted_; }

 private:
  RingHeader* const header_;
  std::byte* const bytes_;
  const size_t capacity_;
  uint64_t head_ = 0;  // ours; the shared one is only written
  bool corrupted_ = false;
};

class RingReader {
 public:
  RingReader(RingHeader* header, std::byte* bytes, size_t capacity);

  enum class Outcome : unsigned char {
    kMessage,
    kEmpty,
    kCorrupted,  // the peer wrote what it must not; the connection is to be ended
  };
  // Takes the next message. `message` is replaced; its capacity is reused.
  // `max_message` bounds what a peer can make us put together.
  Outcome Read(std::vector<std::byte>& message, size_t max_message);

  // Whether the writer has asked for a wake-up since the last call, now that at least half of the ring is
  // free; less is not worth a wake-up. To be called after the last Read() before a sleep.
  bool TakeSpaceWanted();

  // Bytes ever written, as the writer says, and those of the messages that were read. Any thread for the first.
  uint64_t written() const { return header_->head.load(std::memory_order_acquire); }
  uint64_t read() const { return tail_; }

  // Sleeps until the writer publishes, a fork asks for a channel, Interrupt() is called, or the time is over. May
  // return early. Returns false when it was interrupted, and until TakeForkSignal() takes the signal of a fork.
  bool Wait(int64_t timeout_ns);
  // Announces that we sleep in an event loop. Returns false when there is something to read, and we stay
  // awake.
  bool SleepOnEventFd();
  // Back from the event loop.
  void Awake() { header_->sleeping.store(kRingAwake, std::memory_order_seq_cst); }
  // Ends the Wait() that another thread of this process is in, or else its next one. Works whatever a dead
  // peer has left in the ring. Does not touch a reader that sleeps in an event loop.
  void Interrupt();
  // Whether there was an Interrupt() that no Wait() has reported yet; it counts as reported then.
  bool TakeInterrupt();
  // Whether a fork has asked for a channel since the last call. The reading thread.
  bool TakeForkSignal();

 private:
  bool ForkSignalled() const {
    return header_->fork_signals.load(std::memory_order_seq_cst) != fork_signals_;
  }
  bool Pending() const { return header_->head.load(std::memory_order_seq_cst) != tail_; }

  RingHeader* const header_;
  const std::byte* const bytes_;
  const size_t capacity_;
  uint64_t tail_ = 0;          // ours
  uint32_t fork_signals_ = 0;  // those we have taken
  std::vector<std::byte> partial_;
  bool in_partial_ = false;
  std::atomic<bool> interrupted_{false};
};

// Wakes the reader with the signal of a fork. Any process that maps the ring may call it: a fork of the writer has no
// part in its messages.
void RequestForkChannelOn(RingHeader* header);

// Wakes a reader that sleeps on the futex of `header`.
void WakeFutex(RingHeader* header);

}  // namespace braid
