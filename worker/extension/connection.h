// Connection: the worker's end of the channel, with the memory that is lent either way.
//
// The GIL guards all of it but the channel, and the threads of its own and of devices, which use only what is safe for
// any thread. Nothing here calls Python, and nothing waits but for a segment that is on its way.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/status.h"
#include "ipc/arena.h"
#include "ipc/channel.h"
#include "ipc/messages.h"
#include "ipc/private_view.h"
#include "ipc/segment_map.h"
#include "worker/extension/device_pool.h"

namespace braid {

class Connection;

// Memory of the server that it has lent with an input. When the last holder lets go it is given back, unless
// it went back as an output. Memory that others see too is seen through a private view.
class Lending {
 public:
  // `view` is null for memory that nobody else uses.
  Lending(Connection& connection, const MemoryHandle& handle, std::shared_ptr<Segment> segment,
          std::unique_ptr<PrivateView> view)
      : connection_(connection), handle_(handle), segment_(std::move(segment)), view_(std::move(view)) {}
  ~Lending();
  Lending(const Lending&) = delete;
  Lending& operator=(const Lending&) = delete;

  std::byte* data() const { return view_ ? view_->data() : segment_->base() + handle_.offset; }
  // What it lies in; null for a private view.
  SharedMapping* mapping() const { return view_ ? nullptr : segment_.get(); }
  bool Contains(const std::byte* at, size_t size) const {
    return at >= data() && size <= handle_.size && static_cast<size_t>(at - data()) <= handle_.size - size;
  }
  // A part of it, as it is named to the server.
  MemoryHandle HandleOf(const std::byte* at, size_t size) const {
    return {handle_.segment, handle_.offset + static_cast<uint64_t>(at - data()), size};
  }
  // Whether the server can have `part` back as an output: it has not gone back yet, and the server sees what
  // is in it. REQUIRES: nobody else holds this.
  bool CanHandBack(std::span<const std::byte> part) const {
    return !handed_back_ && (!view_ || view_->Unchanged(part));
  }
  // The server takes it back with the message that names it.
  void HandBack() { handed_back_ = true; }

 private:
  Connection& connection_;
  const MemoryHandle handle_;
  const std::shared_ptr<Segment> segment_;  // shared: it stays mapped when the server retires it
  const std::unique_ptr<PrivateView> view_;
  bool handed_back_ = false;
};

// The same of memory on a GPU: it is mapped there, and given back when the device has done all that it was given by then.
class DeviceLending {
 public:
  DeviceLending(Connection& connection, const MemoryHandle& handle, std::shared_ptr<DeviceMemory> memory)
      : connection_(connection), handle_(handle), memory_(std::move(memory)) {}
  ~DeviceLending();
  DeviceLending(const DeviceLending&) = delete;
  DeviceLending& operator=(const DeviceLending&) = delete;

  const DeviceMemory& memory() const { return *memory_; }

 private:
  Connection& connection_;
  const MemoryHandle handle_;
  std::shared_ptr<DeviceMemory> memory_;  // shared: it stays mapped when the server retires it
};

class Connection {
 public:
  static Result<std::unique_ptr<Connection>> Open(Channel::WorkerEnd end);

  // Starts the thread that takes segments, and ends the process when the server is gone: whatever Python is
  // doing then has nobody to do it for. A worker takes along all that user code has started.
  enum class Alone : unsigned char { kEnds, kEndsFamily };
  Status StartWatching(Alone alone);
  void ConfigureArena(size_t keep_bytes);
  // What is kept on each GPU; DevicePool::kKeepBytes where nothing is said.
  void ConfigurePools(std::span<const LoadMessage::DevicePool> pools);

  // Refused in a forked child, which would disturb its parent's conversation, and after Close().
  Status Send(std::span<const std::byte> message, bool quietly = false);
  // To be called in the child after a fork.
  void MarkForked() { forked_ = true; }
  bool forked() const { return forked_; }
  // Whether anything can be sent.
  Status CheckOpen() const;
  // Nothing is sent from now on.
  void Close() { closed_ = true; }

  // While the main thread waits: what other threads let go of meanwhile is given back at once.
  void set_waiting(bool waiting) { waiting_ = waiting; }
  // Whether Trim() is to be called again before long.
  bool has_to_trim() const;
  // Until when to wait at most because of it.
  int64_t wait_ns() const;

  // To receive from; only its one reader does.
  Channel& channel() { return *channel_; }

  ChannelHeader& header() { return channel_->header(); }

  // The memory of an input is either the server's and borrowed, or this process's own. What others see too is
  // copied when that costs less than a private view. REQUIRES: not inline.
  static bool IsBorrowed(const TensorMessage& tensor) {
    return tensor.place == Place::kSenderMemory ||
           (tensor.place == Place::kSharedMemory && tensor.handle.size > kCopiedBytes);
  }
  // Errors: INVALID_ARGUMENT when there is no such memory, UNAVAILABLE when it cannot be mapped.
  Result<std::shared_ptr<Lending>> Borrow(const TensorMessage& tensor);
  // A copy, or memory that the server had and gives back with the input. Errors: as for Borrow().
  Result<Buffer> TakeOwn(const TensorMessage& tensor);
  // Maps an input that lies on a GPU. Errors also: those of the driver; it was given back then.
  Result<std::shared_ptr<DeviceLending>> BorrowOnDevice(const TensorMessage& tensor);
  // Gives the memory of an input back without a look at it.
  void Refuse(const TensorMessage& tensor);
  // Undoes a Place() of what was never sent.
  void Unplace(const TensorMessage& tensor);
  // The same for all outputs of a response, which then has none.
  void Withdraw(std::vector<TensorMessage>& outputs);
  // Copies the bytes of an output to where the server finds them, and says in `tensor` where that is. Small
  // ones stay where they are: `bytes` has to live until the message is encoded. Errors: UNAVAILABLE.
  Status Place(std::span<const std::byte> bytes, TensorMessage& tensor);
  // Memory for an output of more than kInlineTensorBytes, which Placed() says is written.
  Result<Buffer> AllocateOutput(size_t bytes);
  void Placed(Buffer block, TensorMessage& tensor);
  // Memory of a GPU for what stays there, see DevicePool, and the same as Placed() for it. REQUIRES: bytes > 0. Errors also:
  // those of the driver.
  Result<Buffer> AllocateOnDevice(const std::shared_ptr<CudaContext>& context, size_t bytes);
  Status PlacedOnDevice(Buffer block, TensorMessage& tensor);

  // Gives memory back to the server, now or with what is sent next.
  void QueueRelease(const MemoryHandle& handle);
  // The same for memory of a device, which is given back, and unmapped, when the device is done with it.
  void QueueRelease(const MemoryHandle& handle, std::shared_ptr<DeviceMemory> memory);
  void FlushReleases(bool quietly);
  // The server gives back.
  bool HandleRelease(std::span<const std::byte> message);
  bool HandleRetireSegment(std::span<const std::byte> message);
  // Gives idle memory back to the system.
  void Trim();

  // Sends what still waits for room, for at most `timeout_ns`.
  void Drain(int64_t timeout_ns);

 private:
  explicit Connection(std::unique_ptr<Channel> channel);
  void Watch(Alone alone);
  Result<std::shared_ptr<Segment>> FindSegment(const MemoryHandle& handle);
  Result<Buffer> TakeBack(const MemoryHandle& handle);
  Status Announce(const Segment& segment);
  void SendReleases(bool quietly);
  // Tells of segments on devices that are gone.
  void RetireDeviceSegments();

  // More would make the server wait for its memory during a long execution.
  static constexpr size_t kMaxQueuedReleases = 128;
  static constexpr size_t kMaxQueuedBytes = 1 << 20;
  static constexpr size_t kCopiedBytes = size_t{1} << 20;

  const std::unique_ptr<Channel> channel_;
  SegmentMap segments_;  // the server's
  std::atomic<bool> forked_{false};
  std::atomic<bool> closed_{false};
  bool waiting_ = false;

  SegmentIds ids_;
  std::unique_ptr<Arena> arena_;
  std::unordered_set<uint32_t> announced_;                    // segments of arena_ that the server knows
  std::map<std::pair<uint32_t, uint64_t>, Buffer> lent_out_;  // blocks of arena_ that the server holds
  // On GPUs: what this process makes, by device; what it has mapped, by the server's names.
  std::map<int, std::shared_ptr<DevicePool>> device_pools_;  // shared with blocks in use
  std::map<int, size_t> device_keep_bytes_;
  std::map<uint32_t, std::shared_ptr<DeviceMemory>> mapped_;  // shared with what is lent
  std::vector<MemoryHandle> releases_;
  size_t releases_bytes_ = 0;
  std::vector<std::byte> release_message_;
};

}  // namespace braid
