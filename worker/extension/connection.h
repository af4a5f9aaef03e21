// Connection: the worker's end of the channel, and the memory lent in both directions.
//
// The GIL guards all of it. Exceptions are the channel, and the watching thread and device threads, which use
// only thread-safe parts. Nothing here calls Python. Nothing blocks, except for a segment that is still in
// transit.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
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

// Memory of the server that was lent with an input. The last owner's release returns it, unless it went back
// as an output. Memory with other readers is mapped through a private view.
class Lending {
 public:
  // `view` is null for memory without other users.
  Lending(Connection& connection, const MemoryHandle& handle, std::shared_ptr<Segment> segment,
          std::unique_ptr<PrivateView> view)
      : connection_(connection), handle_(handle), segment_(std::move(segment)), view_(std::move(view)) {}
  ~Lending();
  Lending(const Lending&) = delete;
  Lending& operator=(const Lending&) = delete;

  std::byte* data() const { return view_ ? view_->data() : segment_->base() + handle_.offset; }
  // The mapping that contains the memory; null for a private view.
  SharedMapping* mapping() const { return view_ ? nullptr : segment_.get(); }
  bool Contains(const std::byte* at, size_t size) const {
    return at >= data() && size <= handle_.size && static_cast<size_t>(at - data()) <= handle_.size - size;
  }
  // Returns the server's handle of a part.
  MemoryHandle HandleOf(const std::byte* at, size_t size) const {
    return {handle_.segment, handle_.offset + static_cast<uint64_t>(at - data()), size};
  }
  // Whether `part` can go back to the server as an output: it has not gone back yet, and the server sees its
  // content. REQUIRES: there is no other owner.
  bool CanHandBack(std::span<const std::byte> part) const {
    return !handed_back_ && (!view_ || view_->Unchanged(part));
  }
  // The next message hands the memory back to the server.
  void HandBack() { handed_back_ = true; }

 private:
  Connection& connection_;
  const MemoryHandle handle_;
  const std::shared_ptr<Segment> segment_;  // shared: it stays mapped when the server retires it
  const std::unique_ptr<PrivateView> view_;
  bool handed_back_ = false;
};

// The same for GPU memory. It is mapped in this process. It is returned once the device has finished all work
// that it was given until the last owner's release.
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

  // Starts the thread that receives segments. It ends the process as soon as the server is gone, even during
  // user code, because nothing can use the results then. With kEndsFamily, it also ends all processes that
  // user code has started.
  // With `on_gone`, it calls that function instead.
  enum class Alone : unsigned char { kEnds, kEndsFamily };
  using OnGone = std::function<void()>;
  Status StartWatching(Alone alone, OnGone on_gone = nullptr);
  // Ends the watching thread, which has an `on_gone`. Blocks; call it without the GIL.
  void EndWatching();
  // Frees descriptors, and memory without users. REQUIRES: EndWatching() was called, and no thread receives.
  void Retire();
  void ConfigureArena(size_t keep_bytes);
  // Sets the idle memory to keep on each GPU; the default is DevicePool::kKeepBytes.
  void ConfigurePools(std::span<const LoadMessage::DevicePool> pools);

  // Sends a message. Fails after Close(), and in a forked child, whose messages would corrupt its parent's
  // connection.
  Status Send(std::span<const std::byte> message, bool quietly = false);
  // Must be called in the child after a fork.
  void MarkForked() { forked_ = true; }
  bool forked() const { return forked_; }
  // Whether messages can be sent.
  Status CheckOpen() const;
  // No message is sent after this.
  void Close() { closed_ = true; }

  // While the main thread waits, memory that other threads release is returned at once.
  void set_waiting(bool waiting) { waiting_ = waiting; }
  // Whether Trim() must be called again soon.
  bool has_to_trim() const;
  // The longest wait that still leaves time for Trim().
  int64_t wait_ns() const;

  // For receiving; only the inbox's current reader may use it.
  Channel& channel() { return *channel_; }

  ChannelHeader& header() { return channel_->header(); }

  // Whether the memory of an input is borrowed from the server; otherwise this process owns it. Memory with
  // other readers is copied if that costs less than a private view. REQUIRES: not inline.
  static bool IsBorrowed(const TensorMessage& tensor) {
    return tensor.place == Place::kSenderMemory ||
           (tensor.place == Place::kSharedMemory && tensor.handle.size > kCopiedBytes);
  }
  // Borrows the memory of an input. Errors: INVALID_ARGUMENT if it does not exist, UNAVAILABLE if it cannot
  // be mapped.
  Result<std::shared_ptr<Lending>> Borrow(const TensorMessage& tensor);
  // Returns a copy, or this process's own memory that the server returns with the input. Errors: as for
  // Borrow().
  Result<Buffer> TakeOwn(const TensorMessage& tensor);
  // Maps an input on a GPU. Errors also: those of the driver; the memory is then returned.
  Result<std::shared_ptr<DeviceLending>> BorrowOnDevice(const TensorMessage& tensor);
  // Returns the memory of an input unused.
  void Refuse(const TensorMessage& tensor);
  // Undoes a Place() whose message was not sent.
  void Unplace(const TensorMessage& tensor);
  // The same for all outputs of a response; also clears them.
  void Withdraw(std::vector<TensorMessage>& outputs);
  // Copies the bytes of an output to memory that the server can read, and stores its location in `tensor`.
  // Small outputs are not copied: `bytes` must live until the message is encoded. Errors: UNAVAILABLE.
  Status Place(std::span<const std::byte> bytes, TensorMessage& tensor);
  // Allocates memory for an output of more than kInlineTensorBytes. After writing it, call Placed().
  Result<Buffer> AllocateOutput(size_t bytes);
  void Placed(Buffer block, TensorMessage& tensor);
  // The same for an output that stays on a GPU; see DevicePool. REQUIRES: bytes > 0. Errors also: those of
  // the driver.
  Result<Buffer> AllocateOnDevice(const std::shared_ptr<CudaContext>& context, size_t bytes);
  Status PlacedOnDevice(Buffer block, TensorMessage& tensor);

  // Returns memory to the server, now or with the next message.
  void QueueRelease(const MemoryHandle& handle);
  // The same for memory of a device, once the device has finished with it; unmaps it, too.
  void QueueRelease(const MemoryHandle& handle, std::shared_ptr<DeviceMemory> memory);
  void FlushReleases(bool quietly);
  // Handle the server's release of memory and its retirement of a segment; false if the message is invalid.
  bool HandleRelease(std::span<const std::byte> message);
  bool HandleRetireSegment(std::span<const std::byte> message);
  // Returns idle memory to the system.
  void Trim();

  // Sends queued messages that wait for room, for at most `timeout_ns`.
  void Drain(int64_t timeout_ns);

 private:
  explicit Connection(std::unique_ptr<Channel> channel);
  void Watch(Alone alone, const OnGone& on_gone);
  Result<std::shared_ptr<Segment>> FindSegment(const MemoryHandle& handle);
  Result<Buffer> TakeBack(const MemoryHandle& handle);
  Status Announce(const Segment& segment);
  void SendReleases(bool quietly);
  // Announces device segments that left the pools.
  void RetireDeviceSegments();

  // Limits; a longer queue would make the server wait for its memory during a long execution.
  static constexpr size_t kMaxQueuedReleases = 128;
  static constexpr size_t kMaxQueuedBytes = 1 << 20;
  static constexpr size_t kCopiedBytes = size_t{1} << 20;

  const std::unique_ptr<Channel> channel_;
  SegmentMap segments_;  // the server's
  std::atomic<bool> forked_{false};
  std::atomic<bool> closed_{false};
  bool waiting_ = false;
  std::thread watcher_;  // only with an OnGone

  SegmentIds ids_;
  std::unique_ptr<Arena> arena_;
  std::unordered_set<uint32_t> announced_;  // segments of arena_ that were sent to the server
  std::map<std::pair<uint32_t, uint64_t>, Buffer> lent_out_;  // blocks that the server holds
  // GPU memory: this process's pools by device, and mapped segments of the server by id.
  std::map<int, std::shared_ptr<DevicePool>> device_pools_;  // shared with blocks in use
  std::map<int, size_t> device_keep_bytes_;
  std::map<uint32_t, std::shared_ptr<DeviceMemory>> mapped_;  // shared with lendings
  std::vector<MemoryHandle> releases_;
  size_t releases_bytes_ = 0;
  std::vector<std::byte> release_message_;
};

}  // namespace braid
