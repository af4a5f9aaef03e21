// Channel: the two-way connection between the server and one worker.
//
// Messages go through two rings in one shared segment. Segments of tensors are sent by descriptor over a Unix
// socket, each before the first message that names it. A hang-up of the socket tells the worker that the
// server is gone; the server observes the worker's process instead.
//
// Any thread of this process may call Send(), which never blocks. Messages that do not fit into the ring wait
// in memory until the peer has made room. Receive() belongs to one thread.
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

// The beginning of a channel's shared segment.
struct ChannelHeader {
  static constexpr uint32_t kMagic = 0x42524431;  // "BRD1"
  static constexpr size_t kCancelSlots = 65536;

  uint32_t magic;
  uint32_t ring_bytes;
  uint64_t max_message;
  std::atomic<uint32_t> spin_ns;  // of the worker's Receive(); written by the server
  RingHeader to_worker;
  RingHeader to_server;
  // The id of the newest execution that user code has begun; written by the worker. If the worker dies, it
  // tells the server which executions can run elsewhere.
  alignas(64) std::atomic<uint64_t> begun_execution;
  // Set by the server when the request with this slot is cancelled; read by request.is_cancelled().
  alignas(64) std::atomic<uint8_t> cancelled[kCancelSlots];
};

class Channel {
 public:
  struct Options {
    size_t ring_bytes = size_t{256} << 10;         // each way; a power of two, 4 KiB to 1 GiB
    size_t max_message = size_t{256} << 20;        // of one message, in either direction
    size_t max_pending_bytes = size_t{512} << 20;  // of waiting messages; beyond it the peer is stuck
    // Wake each end through a socket instead of one pipe. The socket also shows the other end's hang-up, for
    // a server that polls.
    bool wake_by_socket = false;
    // Limits the segments that the peer can make this process map. Null: no limit.
    std::shared_ptr<SegmentBudget> imports = nullptr;
  };

  // The descriptors that the worker needs to open its end.
  struct WorkerEnd {
    UniqueFd memory;
    UniqueFd socket;
    UniqueFd wake;  // like an eventfd: readable when the server wakes a worker that sleeps in an event loop
  };

  // Creates the server's end, and the descriptors of the worker's end, which are closed on exec. Errors:
  // INVALID_ARGUMENT for wrong options, UNAVAILABLE if the system has no descriptors or memory left.
  static Result<std::unique_ptr<Channel>> CreateServerEnd(const Options& options, WorkerEnd& worker_end);
  // Opens the worker's end. Errors: INVALID_ARGUMENT if the memory is not a channel's.
  static Result<std::unique_ptr<Channel>> OpenWorkerEnd(WorkerEnd worker_end);

  // Queues a message. With `quietly`, does not wake the peer for it. Errors: UNAVAILABLE once the peer has
  // broken the protocol or max_pending_bytes wait for it; INVALID_ARGUMENT for a message that is empty or too
  // long.
  Status Send(std::span<const std::byte> message, bool quietly = false);
  // Sends waiting messages if there is room now. Receive() does this when the peer asks for it.
  void Flush();
  // Returns whether messages wait for room. They stay until a thread calls Receive() or Flush(). Any thread.
  bool has_waiting() const { return has_waiting_.load(std::memory_order_relaxed); }

  enum class Outcome : unsigned char { kMessage, kTimeout, kCorrupted };
  // Takes the next message, waiting for up to `timeout_ns`; 0 does not wait. After Interrupt() it returns
  // kTimeout early, once per call, when all available messages have been taken.
  Outcome Receive(std::vector<std::byte>& message, int64_t timeout_ns);
  // Ends a Receive() that waits, or else the next one that would. Any thread.
  void Interrupt() { reader_.Interrupt(); }

  // Sets how long Receive() polls before it sleeps, at both ends of all channels of this process; at most
  // kMostSpinNs. See RingReader::Wait(). Any thread.
  static void SetSpinNs(int64_t spin_ns);
  static constexpr int64_t kMostSpinNs = 1'000'000;

  // The positions of the peer's sending and of the receiving thread. A message counts as handled when the
  // next Receive() begins. Everything sent before a call of sent() has been handled once handled() >= its
  // result. Any thread.
  uint64_t sent() const { return reader_.written(); }
  uint64_t handled() const { return handled_.load(std::memory_order_acquire); }

  // --- For a fork of the worker. It inherits the worker's end but must not use its messages, so it asks for
  // a channel. See ipc/fork_rendezvous.h.

  // Sends the server a socket on which to answer the fork; does not block. Errors: UNAVAILABLE.
  Status SendForkSocket(int socket);
  // Returns whether a fork has asked for a channel; a waiting Receive() then ends early. The server's
  // receiving thread. The forks' sockets arrive among the segments, so receive those before calling
  // TakeForkSockets().
  bool TakeForkSignal() { return reader_.TakeForkSignal(); }
  std::vector<UniqueFd> TakeForkSockets();

  // For a worker whose thread sleeps in an event loop: see RingReader.
  RingReader& reader() { return reader_; }
  int wake_fd() const { return wake_.get(); }
  int socket() const { return socket_.get(); }
  // Closes the descriptors; the memory stays mapped. REQUIRES: no thread uses the channel any more.
  void CloseDescriptors();
  ChannelHeader& header() { return *header_; }
  const std::shared_ptr<SegmentBudget>& imports() const { return options_.imports; }

  // Sends a segment to the peer by its descriptor; does not block. `as` is its name in messages of this
  // direction. Any thread. Errors: UNAVAILABLE if the peer is gone or has left some hundreds untaken.
  Status SendSegment(const Segment& segment, uint32_t as);
  // Takes one segment that the peer sent. With `wait`, blocks until there is one; otherwise returns null if
  // there is none. Any thread. Errors: UNAVAILABLE if the peer is gone, INVALID_ARGUMENT if it broke the
  // protocol, RESOURCE_EXHAUSTED if it handed over too much.
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
  int64_t SpinNs();

  const bool server_end_;
  const Options options_;
  const std::shared_ptr<Segment> memory_;
  ChannelHeader* const header_;
  UniqueFd socket_;
  UniqueFd wake_;
  RingHeader* const peer_ring_;  // written by this end
  RingReader reader_;            // used by the receiving thread
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
