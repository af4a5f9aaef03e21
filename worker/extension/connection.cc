#include "worker/extension/connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/process_family.h"
#include "base/thread.h"
#include "worker/extension/devices.h"

namespace braid {
namespace {

// A message names a segment only after it was sent, so the wait is only for the watching thread.
constexpr int64_t kSegmentWaitNs = 30'000'000'000;
constexpr int kSocketWaitMs = 1000;
constexpr int64_t kTrimIntervalNs = 1'000'000'000;
constexpr int64_t kFamilyNs = 5'000'000'000;
constexpr int64_t kForeverNs = 3600'000'000'000;

}  // namespace

Lending::~Lending() {
  if (!handed_back_) connection_.QueueRelease(handle_);
}

DeviceLending::~DeviceLending() { connection_.QueueRelease(handle_, std::move(memory_)); }

Connection::Connection(std::unique_ptr<Channel> channel) : channel_(std::move(channel)) {
  ConfigureArena(Arena::Options().keep_bytes);
}

Result<std::unique_ptr<Connection>> Connection::Open(Channel::WorkerEnd end) {
  BRAID_ASSIGN_OR_RETURN(auto channel, Channel::OpenWorkerEnd(std::move(end)));
  return std::unique_ptr<Connection>(new Connection(std::move(channel)));
}

void Connection::ConfigureArena(size_t keep_bytes) {
  Arena::Options options;
  options.keep_bytes = keep_bytes;
  arena_ = std::make_unique<Arena>(ids_, options);
}

void Connection::ConfigurePools(std::span<const LoadMessage::DevicePool> pools) {
  for (const LoadMessage::DevicePool& pool : pools) device_keep_bytes_[pool.gpu] = pool.keep_bytes;
}

Status Connection::StartWatching(Alone alone, OnGone on_gone) {
  const bool stays = on_gone != nullptr;
  BRAID_ASSIGN_OR_RETURN(
      std::thread watcher,
      TryStartThread("brd-watch", [this, alone, on_gone = std::move(on_gone)] { Watch(alone, on_gone); }));
  if (stays) {
    watcher_ = std::move(watcher);
  } else {
    watcher.detach();
  }
  return OkStatus();
}

void Connection::EndWatching() {
  shutdown(channel_->socket(), SHUT_RDWR);
  watcher_.join();
}

void Connection::Retire() {
  segments_.Clear();
  arena_ = std::make_unique<Arena>(ids_, Arena::Options());
  channel_->CloseDescriptors();
}

void Connection::Watch(Alone alone, const OnGone& on_gone) {
  while (true) {
    Result<std::shared_ptr<Segment>> received = channel_->ReceiveSegment(true);
    if (!received.ok() && on_gone) return on_gone();
    if (!received.ok()) {
      // kUnavailable is the usual reason: the server is gone. It is not worth a message.
      if (received.status().code() != StatusCode::kUnavailable) {
        std::fprintf(stderr, "braid worker %d: %s\n", static_cast<int>(getpid()),
                     received.status().message().c_str());
      }
      // Without a server, no other process ends the processes of user code.
      if (const auto family = ProcessFamily::Own(); family && alone == Alone::kEndsFamily)
        family->End(kFamilyNs);
      _exit(1);
    }
    segments_.Add(std::move(received).value());
  }
}

Status Connection::CheckOpen() const {
  if (forked_) {
    return UnsupportedError("This process was forked from the model's process and cannot call the server.");
  }
  return closed_ ? UnavailableError("The model is being unloaded.") : OkStatus();
}

Status Connection::Send(std::span<const std::byte> message, bool quietly) {
  BRAID_RETURN_IF_ERROR(CheckOpen());
  return channel_->Send(message, quietly);
}

bool Connection::has_to_trim() const {
  // The server's releases do not wake this thread, and only they make memory trimmable. So the thread must
  // poll while the server holds blocks.
  return arena_->has_excess() || !lent_out_.empty();
}

int64_t Connection::wait_ns() const { return has_to_trim() ? kTrimIntervalNs : kForeverNs; }

Result<std::shared_ptr<Segment>> Connection::FindSegment(const MemoryHandle& handle) {
  std::shared_ptr<Segment> segment = segments_.Find(handle.segment);
  if (!segment) segment = segments_.WaitFor(handle.segment, kSegmentWaitNs);
  if (!segment || !segment->Contains(handle.offset, handle.size)) {
    return InvalidArgumentError("an input is in memory that the server did not share");
  }
  return segment;
}

Result<std::shared_ptr<Lending>> Connection::Borrow(const TensorMessage& tensor) {
  BRAID_ASSIGN_OR_RETURN(auto segment, FindSegment(tensor.handle));
  std::unique_ptr<PrivateView> view;
  if (tensor.place == Place::kSharedMemory) {
    BRAID_ASSIGN_OR_RETURN(view, PrivateView::Map(*segment, tensor.handle.offset, tensor.handle.size));
  }
  return std::make_shared<Lending>(*this, tensor.handle, std::move(segment), std::move(view));
}

Result<std::shared_ptr<DeviceLending>> Connection::BorrowOnDevice(const TensorMessage& tensor) {
  BRAID_ASSIGN_OR_RETURN(const auto segment, FindSegment(tensor.handle));
  const auto map = [&]() -> Result<std::shared_ptr<DeviceMemory>> {
    if (!segment->on_device()) return InvalidArgumentError("an input is not on a GPU");
    if (const auto known = mapped_.find(segment->id()); known != mapped_.end()) return known->second;
    BRAID_ASSIGN_OR_RETURN(auto context, DeviceNamed(segment->gpu()));
    BRAID_ASSIGN_OR_RETURN(auto memory,
                           DeviceMemory::Import(std::move(context), segment->fd(), segment->size()));
    return mapped_[segment->id()] = std::move(memory);
  };
  auto memory = map();
  if (!memory.ok()) {
    QueueRelease(tensor.handle);
    return memory.status();
  }
  return std::make_shared<DeviceLending>(*this, tensor.handle, *std::move(memory));
}

Result<Buffer> Connection::TakeOwn(const TensorMessage& tensor) {
  const MemoryHandle& handle = tensor.handle;
  if (tensor.place == Place::kReceiverMemory) return TakeBack(handle);
  BRAID_ASSIGN_OR_RETURN(auto segment, FindSegment(handle));
  BRAID_ASSIGN_OR_RETURN(Buffer copy, arena_->Allocate(handle.size));
  std::memcpy(copy.mutable_data(), segment->base() + handle.offset, handle.size);
  QueueRelease(handle);
  return copy;
}

void Connection::Refuse(const TensorMessage& tensor) {
  if (tensor.place == Place::kInline) return;
  if (tensor.place != Place::kReceiverMemory) return QueueRelease(tensor.handle);
  // Memory that this process gets back is then free.
  static_cast<void>(TakeBack(tensor.handle));
}

Result<Buffer> Connection::TakeBack(const MemoryHandle& handle) {
  auto after = lent_out_.upper_bound({handle.segment, handle.offset});
  if (after != lent_out_.begin()) {
    auto found = std::prev(after);
    const Buffer& block = found->second;
    const uint64_t skip = handle.offset - found->first.second;
    if (found->first.first == handle.segment && skip <= block.size() && handle.size <= block.size() - skip) {
      Buffer part = block.Slice(skip, handle.size);
      lent_out_.erase(found);
      return part;
    }
  }
  return InvalidArgumentError("an input is in memory that was not lent to the server");
}

Status Connection::Place(std::span<const std::byte> bytes, TensorMessage& tensor) {
  if (bytes.size() <= kInlineTensorBytes) {
    tensor.place = Place::kInline;
    tensor.bytes = bytes;
    return OkStatus();
  }
  BRAID_ASSIGN_OR_RETURN(Buffer block, AllocateOutput(bytes.size()));
  std::memcpy(block.mutable_data(), bytes.data(), bytes.size());
  Placed(std::move(block), tensor);
  return OkStatus();
}

Result<Buffer> Connection::AllocateOutput(size_t bytes) {
  // A forked child sees its parent's memory, and must not write to it.
  BRAID_RETURN_IF_ERROR(CheckOpen());
  BRAID_ASSIGN_OR_RETURN(Buffer block, arena_->Allocate(bytes));
  BRAID_RETURN_IF_ERROR(Announce(*static_cast<SegmentBlock*>(block.owner())->segment()));
  return block;
}

Status Connection::Announce(const Segment& segment) {
  if (announced_.contains(segment.id())) return OkStatus();
  Status announced = channel_->SendSegment(segment, segment.id());
  if (!announced.ok()) {
    // The server receives segments while it reads messages; it may be behind.
    pollfd socket{channel_->socket(), POLLOUT, 0};
    poll(&socket, 1, kSocketWaitMs);
    announced = channel_->SendSegment(segment, segment.id());
  }
  if (announced.ok()) announced_.insert(segment.id());
  return announced;
}

Result<Buffer> Connection::AllocateOnDevice(const std::shared_ptr<CudaContext>& context, size_t bytes) {
  BRAID_RETURN_IF_ERROR(CheckOpen());
  std::shared_ptr<DevicePool>& pool = device_pools_[context->gpu()];
  if (pool == nullptr) {
    const auto said = device_keep_bytes_.find(context->gpu());
    pool = std::make_shared<DevicePool>(
        context, ids_, said == device_keep_bytes_.end() ? DevicePool::kKeepBytes : said->second);
  }
  return pool->Allocate(bytes);
}

Status Connection::PlacedOnDevice(Buffer block, TensorMessage& tensor) {
  BRAID_RETURN_IF_ERROR(Announce(*static_cast<SegmentBlock*>(block.owner())->segment()));
  Placed(std::move(block), tensor);
  return OkStatus();
}

void Connection::Placed(Buffer block, TensorMessage& tensor) {
  const Segment& segment = *static_cast<SegmentBlock*>(block.owner())->segment();
  tensor.place = segment.on_device() ? Place::kDeviceMemory : Place::kSenderMemory;
  tensor.handle = {segment.id(), static_cast<uint64_t>(block.data() - segment.base()), block.size()};
  lent_out_.insert_or_assign({tensor.handle.segment, tensor.handle.offset}, std::move(block));
}

void Connection::Unplace(const TensorMessage& tensor) {
  if (tensor.place == Place::kSenderMemory || tensor.place == Place::kDeviceMemory)
    lent_out_.erase({tensor.handle.segment, tensor.handle.offset});
}

void Connection::Withdraw(std::vector<TensorMessage>& outputs) {
  for (const TensorMessage& output : outputs) Unplace(output);
  outputs.clear();
}

void Connection::QueueRelease(const MemoryHandle& handle) {
  if (forked_ || closed_) return;
  releases_.push_back(handle);
  releases_bytes_ += handle.size;
  if (waiting_) {
    FlushReleases(false);
  } else if (releases_.size() >= kMaxQueuedReleases || releases_bytes_ >= kMaxQueuedBytes) {
    SendReleases(true);
  }
}

void Connection::QueueRelease(const MemoryHandle& handle, std::shared_ptr<DeviceMemory> memory) {
  if (forked_ || closed_) return;
  const std::shared_ptr<CudaContext> device = memory->shared_context();
  WhenDone(device, [this, handle, memory = std::move(memory)] {
    ReleaseMessage message;
    message.handles.push_back(handle);
    std::vector<std::byte> encoded;
    Encode(encoded, message);
    static_cast<void>(Send(encoded));  // see SendReleases()
  });
}

void Connection::FlushReleases(bool quietly) {
  SendReleases(quietly);
  RetireDeviceSegments();
}

void Connection::SendReleases(bool quietly) {
  if (releases_.empty()) return;
  ReleaseMessage message;
  message.handles.swap(releases_);
  releases_bytes_ = 0;
  Encode(release_message_, message);
  // On failure the server is gone or stuck; the watching thread handles that.
  static_cast<void>(Send(release_message_, quietly));
  message.handles.clear();
  releases_.swap(message.handles);
}

bool Connection::HandleRelease(std::span<const std::byte> message) {
  ReleaseMessage release;
  if (!Decode(message, release)) return false;
  for (const MemoryHandle& handle : release.handles) {
    if (lent_out_.erase({handle.segment, handle.offset}) == 0) return false;
  }
  return true;
}

bool Connection::HandleRetireSegment(std::span<const std::byte> message) {
  RetireSegmentMessage retired;
  if (!Decode(message, retired)) return false;
  segments_.Remove(retired.segment);
  if (auto known = mapped_.extract(retired.segment)) {
    // The driver may take long to unmap the memory.
    const std::shared_ptr<CudaContext> device = known.mapped()->shared_context();
    WhenDone(device, [memory = std::move(known.mapped())] {});
  }
  return true;
}

void Connection::RetireDeviceSegments() {
  std::vector<std::byte> message;
  for (const auto& [gpu, pool] : device_pools_) {
    for (DevicePool::Gone& gone : pool->TakeGone()) {
      WhenDone(pool->context(), [memory = std::move(gone.memory)] {});
      if (announced_.erase(gone.segment) == 0) continue;
      Encode(message, RetireSegmentMessage{gone.segment});
      static_cast<void>(Send(message, true));
    }
  }
}

void Connection::Trim() {
  if (!arena_->has_excess()) return;
  std::vector<std::byte> message;
  for (uint32_t id : arena_->Trim(SteadyNowNs())) {
    if (announced_.erase(id) == 0) continue;
    Encode(message, RetireSegmentMessage{id});
    static_cast<void>(Send(message, true));
  }
}

void Connection::Drain(int64_t timeout_ns) {
  std::vector<std::byte> message;
  const int64_t deadline = SteadyNowNs() + timeout_ns;
  // Only a receive notices room in the ring. The server sends this worker no more messages.
  while (SteadyNowNs() < deadline) {
    channel_->Flush();
    if (channel_->Receive(message, 0) == Channel::Outcome::kTimeout) break;
  }
}

}  // namespace braid
