// Channel: the two-way connection between the server and one worker.
//
// Messages go through two rings in one shared segment; segments of tensors go by descriptor over a Unix
// socket, each before the first message that names it. The socket's hang-up tells the worker that the server
// is gone; the server learns of a worker's death from the process itself.
//
// Send() may be called by any thread of this process and never blocks: what does not fit into the ring waits
// in memory and follows when the peer has made room. Receive() belongs to one thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "ipc/ring.h"
#include "ipc/segment.h"

namespace braid {

// The shared segment of a channel starts with this.
struct ChannelHeader {
  static constexpr uint32_t kMagic = 0x42524431;  // "BRD1"
  static constexpr size_t kCancelSlots = 65536;

  uint32_t magic;
  uint32_t ring_bytes;
  uint64_t max_message;
  RingHeader to_worker;
  RingHeader to_server;
  // The id of the newest execution that user code has begun; the worker's. Tells the server, should the
  // worker die, which of those it handed over can run elsewhere.
  alignas(64) std::atomic<uint64_t> begun_execution;
  // Set by the server when the request that was given this slot is cancelled; read by request.is_cancelled().
  alignas(64) std::atomic<uint8_t> cancelled[kCancelSlots];
};

class Channel {
 public:
  struct Options {
    size_t ring_bytes = size_t{256} << 10;         // each way; a power of two, 4 KiB to 1 GiB
    size_t max_message = size_t{256} << 20;        // of one message; holds for both ends
    size_t max_pending_bytes = size_t{512} << 20;  // that wait for room; beyond it the peer counts as stuck
    // Each end is woken through a socket of its own, on which the hang-up of the other is seen too, rather
    // than through one pipe: for a server that polls.
    bool wake_by_socket = false;
    // What the peer may have us map. Null: no limit.
    std::shared_ptr<SegmentBudget> imports = nullptr;
  };

  // What the worker needs to open its end.
  struct WorkerEnd {
    UniqueFd memory;
    UniqueFd socket;
    UniqueFd wake;  // like an eventfd, readable when the server wakes a worker that sleeps in an event loop
  };

  // Makes the server's end, and the descriptors of the worker's, which are closed on exec. Errors:
  // INVALID_ARGUMENT for wrong options, UNAVAILABLE when the system has no more descriptors or memory.
  static Result<std::unique_ptr<Channel>> CreateServerEnd(const Options& options, WorkerEnd& worker_end);
  // Opens the worker's end. Errors: INVALID_ARGUMENT when this is not the memory of a channel.
  static Result<std::unique_ptr<Channel>> OpenWorkerEnd(WorkerEnd worker_end);

  // Queues a message. With `quietly` the peer is not woken for it. Errors: UNAVAILABLE once the peer has
  // broken the rules or far too much waits for it; INVALID_ARGUMENT for a message that is empty or too long.
  Status Send(std::span<const std::byte> message, bool quietly = false);
  // Sends what waits for room, if there is some now. Receive() does this when the peer asks for it.
  void Flush();
  // Whether something waits for room: somebody has to receive, or it stays where it is. Any thread.
  bool has_waiting() const { return has_waiting_.load(std::memory_order_relaxed); }

  enum class Outcome : unsigned char { kMessage, kTimeout, kCorrupted };
  // Takes the next message, waiting for it up to `timeout_ns`; 0 does not wait. Returns kTimeout early after
  // Interrupt(), once for each, when all messages that are there have been taken.
  Outcome Receive(std::vector<std::byte>& message, int64_t timeout_ns);
  // Ends a Receive() that waits, or else the next that would. Any thread.
  void Interrupt() { reader_.Interrupt(); }

  // How far the peer has sent, and how far the receiving thread has come: a message is behind it when the next
  // Receive() begins. What the peer had sent by now has been dealt with once handled() >= sent(). Any thread.
  uint64_t sent() const { return reader_.written(); }
  uint64_t handled() const { return handled_.load(std::memory_order_acquire); }

  // --- For a fork of the worker, which has inherited its end but no part in its conversation: it asks for a
  // channel of its own. See ipc/fork_rendezvous.h.

  // The fork hands the server a socket to answer on; does not block. Errors: UNAVAILABLE.
  Status SendForkSocket(int socket);
  // The server's receiving thread: whether a fork asks for a channel; a Receive() that waits ends early then. The
  // sockets come among the segments, so those are to be received first.
  bool TakeForkSignal() { return reader_.TakeForkSignal(); }
  std::vector<UniqueFd> TakeForkSockets();

  // For a worker whose thread sleeps in an event loop: see RingReader.
  RingReader& reader() { return reader_; }
  int wake_fd() const { return wake_.get(); }
  int socket() const { return socket_.get(); }
  ChannelHeader& header() { return *header_; }
  const std::shared_ptr<SegmentBudget>& imports() const { return options_.imports; }

  // Sends a segment to the peer by its descriptor; does not block. `as` is its name in messages of this
  // direction. Any thread. Errors: UNAVAILABLE when the peer is gone or has some hundreds not taken yet.
  Status SendSegment(const Segment& segment, uint32_t as);
  // Takes one segment that the peer sent. With `wait`, blocks until there is one. Returns null when there is
  // none now; an error when the peer is gone (UNAVAILABLE), breaks the rules (INVALID_ARGUMENT) or has handed
  // over too much (RESOURCE_EXHAUSTED). Any thread.
  Result<std::shared_ptr<Segment>> ReceiveSegment(bool wait);

 private:
  Status SendDescriptor(int fd, uint64_t size, uint32_t id, uint32_t kind, const GpuUuid& gpu);

  Channel(std::shared_ptr<Segment> memory, UniqueFd socket, UniqueFd wake, bool server_end,
          const Options& options);

  bool Write(std::span<const std::byte> message, size_t& done) BRAID_REQUIRES(send_mutex_);
  bool WriteWaiting() BRAID_REQUIRES(send_mutex_);
  void FlushLocked() BRAID_REQUIRES(send_mutex_);
  void WakePeer(RingSleep sleep);
  void TellOfSpace();

  const Options options_;
  const std::shared_ptr<Segment> memory_;
  ChannelHeader* const header_;
  const UniqueFd socket_;
  const UniqueFd wake_;
  RingHeader* const peer_ring_;  // the one that we write
  RingReader reader_;            // the receiving thread's
  std::atomic<uint64_t> handled_{0};

  struct Waiting {
    std::vector<std::byte> message;
    size_t done = 0;
  };
  Mutex send_mutex_;
  RingWriter writer_ BRAID_GUARDED_BY(send_mutex_);
  std::deque<Waiting> waiting_ BRAID_GUARDED_BY(send_mutex_);
  size_t waiting_bytes_ BRAID_GUARDED_BY(send_mutex_) = 0;
  std::atomic<bool> has_waiting_{false};

  Mutex fork_mutex_;
  std::vector<UniqueFd> fork_sockets_ BRAID_GUARDED_BY(fork_mutex_);
};

}  // namespace braid
