#include "backends/native/native_memory.h"

#include <poll.h>

#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "base/guard.h"
#include "tensor/shared_bytes.h"

namespace braid {
namespace {

// A message may name a segment before the thread that takes segments has run, so Take() waits for it.
constexpr int64_t kArrivalNs = 30'000'000'000;
constexpr int kSocketWaitMs = 1000;
// From this size on the server treats a block as alone in its segment, if it fills three fourths of it
// (WorkerMemory).
constexpr size_t kLargestAmongOthers = size_t{64} << 10;

bool LooksAlone(const Buffer& buffer, const Segment& segment) {
  return segment.size() > kLargestAmongOthers && buffer.data() == segment.base() &&
         segment.size() - buffer.size() <= segment.size() / 4;
}

}  // namespace

// Memory of the server, which other processes may also see.
class NativeMemory::Borrowed final : public BufferOwner, public SharedBytes {
 public:
  Borrowed(NativeMemory& memory, std::shared_ptr<Segment> segment, const MemoryHandle& handle)
      : memory_(memory), segment_(std::move(segment)), handle_(handle) {}
  ~Borrowed() override { memory_.Release(handle_); }

 private:
  NativeMemory& memory_;
  const std::shared_ptr<Segment> segment_;  // shared: stays mapped after the server retires it
  const MemoryHandle handle_;
};

Result<Buffer> NativeMemory::Outputs::Allocate(size_t size) {
  BRAID_ASSIGN_OR_RETURN(Buffer buffer, memory_.arena_->Allocate(size));
  if (buffer.empty()) return buffer;
  const std::shared_ptr<Segment>& segment = static_cast<SegmentBlock*>(buffer.owner())->segment();
  MutexLock lock(memory_.mutex_);
  memory_.made_.insert_or_assign(segment->base(), segment);
  return buffer;
}

void NativeMemory::Configure(size_t keep_bytes) {
  Arena::Options options;
  options.keep_bytes = keep_bytes;
  arena_ = std::make_unique<Arena>(ids_, options);
}

bool NativeMemory::OnRetire(std::span<const std::byte> message) {
  RetireSegmentMessage retired;
  if (!Decode(message, retired)) return false;
  segments_.Remove(retired.segment);
  return true;
}

Result<Buffer> NativeMemory::Take(const TensorMessage& tensor) {
  const MemoryHandle& handle = tensor.handle;
  if (tensor.place == Place::kInline) return CopyToHeap(tensor.bytes);
  if (tensor.place == Place::kReceiverMemory)
    return InvalidArgumentError("unexpected input in the worker's own memory");
  std::shared_ptr<Segment> segment = segments_.Find(handle.segment);
  if (!segment) segment = segments_.WaitFor(handle.segment, kArrivalNs);
  if (!segment || !segment->Contains(handle.offset, handle.size))
    return InvalidArgumentError("an input is in memory that the server did not share");
  std::byte* const data = segment->base() + handle.offset;
  return Buffer(data, handle.size, new Borrowed(*this, std::move(segment), handle));
}

void NativeMemory::Release(const MemoryHandle& handle) {
  RetryingLock lock(mutex_);
  releases_.push_back(handle);
}

std::vector<MemoryHandle> NativeMemory::TakeReleases() {
  MutexLock lock(mutex_);
  return std::exchange(releases_, {});
}

std::shared_ptr<Segment> NativeMemory::SegmentOf(const Buffer& buffer) {
  MutexLock lock(mutex_);
  auto after = made_.upper_bound(buffer.data());
  if (after == made_.begin()) return nullptr;
  std::shared_ptr<Segment> segment = std::prev(after)->second.lock();
  if (!segment || buffer.data() + buffer.size() > segment->base() + segment->size()) return nullptr;
  return segment;
}

Status NativeMemory::Announce(const Segment& segment) {
  if (announced_.contains(segment.id())) return OkStatus();
  Status sent = channel_.SendSegment(segment, segment.id());
  if (!sent.ok()) {
    // The server takes segments while it reads messages; the socket may be full until then.
    pollfd socket{channel_.socket(), POLLOUT, 0};
    poll(&socket, 1, kSocketWaitMs);
    sent = channel_.SendSegment(segment, segment.id());
  }
  if (sent.ok()) announced_.insert(segment.id());
  return sent;
}

Status NativeMemory::Place(const Buffer& buffer, bool part, TensorMessage& tensor) {
  if (buffer.size() <= kInlineTensorBytes) {
    tensor.place = Place::kInline;
    tensor.bytes = {buffer.data(), buffer.size()};
    return OkStatus();
  }
  Buffer lent = buffer;
  std::shared_ptr<Segment> segment = SegmentOf(lent);
  // The server would lend the whole segment on, and with it the bytes behind the buffer.
  if (segment && part && LooksAlone(lent, *segment)) segment = nullptr;
  if (!segment) {
    BRAID_ASSIGN_OR_RETURN(lent, outputs_.Allocate(buffer.size()));
    std::memcpy(lent.mutable_data(), buffer.data(), buffer.size());
    segment = static_cast<SegmentBlock*>(lent.owner())->segment();
  } else if (LooksAlone(lent, *segment) && dynamic_cast<SegmentBlock*>(lent.owner()) == nullptr) {
    // A shrunk OpenVINO tensor still has an earlier one behind it.
    std::memset(segment->base() + lent.size(), 0, segment->size() - lent.size());
  }
  tensor.place = Place::kSenderMemory;
  tensor.handle = {segment->id(), static_cast<uint64_t>(lent.data() - segment->base()), lent.size()};
  RetryingLock lock(mutex_);
  BRAID_RETURN_IF_ERROR(Announce(*segment));
  Lent& entry = lent_[{tensor.handle.segment, tensor.handle.offset}];
  if (entry.times++ == 0 || entry.buffer.size() < lent.size()) entry.buffer = std::move(lent);
  return OkStatus();
}

void NativeMemory::Unplace(const TensorMessage& tensor) {
  if (tensor.place != Place::kSenderMemory) return;
  Buffer freed;  // freed after the lock is released
  MutexLock lock(mutex_);
  const auto found = lent_.find({tensor.handle.segment, tensor.handle.offset});
  if (found == lent_.end() || --found->second.times > 0) return;
  freed = std::move(found->second.buffer);
  lent_.erase(found);
}

bool NativeMemory::OnRelease(std::span<const std::byte> message) {
  ReleaseMessage release;
  if (!Decode(message, release)) return false;
  for (const MemoryHandle& handle : release.handles) {
    Buffer freed;  // freed after the lock is released
    MutexLock lock(mutex_);
    const auto found = lent_.find({handle.segment, handle.offset});
    if (found == lent_.end()) return false;
    if (--found->second.times > 0) continue;
    freed = std::move(found->second.buffer);
    lent_.erase(found);
  }
  return true;
}

bool NativeMemory::has_to_trim() const {
  if (arena_ == nullptr) return false;
  MutexLock lock(mutex_);
  // Memory that the server returns does not wake the reading thread, so it must check.
  return arena_->has_excess() || !lent_.empty();
}

void NativeMemory::Trim() {
  if (arena_ == nullptr || !arena_->has_excess()) return;
  std::vector<std::byte> message;
  for (uint32_t id : arena_->Trim(SteadyNowNs())) {
    MutexLock lock(mutex_);
    if (announced_.erase(id) == 0) continue;
    Encode(message, RetireSegmentMessage{id});
    // A failure means that the server is gone; the thread that takes segments handles that.
    static_cast<void>(channel_.Send(message, true));
  }
  MutexLock lock(mutex_);
  std::erase_if(made_, [](const auto& one) { return one.second.expired(); });
}

}  // namespace braid
