#include "backends/python/worker_memory.h"

#include <cstring>

namespace braid {
namespace {

// A worker that sleeps learns of freed memory with its next request; for so much it is woken.
constexpr uint64_t kWakeForBytes = uint64_t{8} << 20;

}  // namespace

// A block of the worker's, held for the server. When it goes, the worker is told.
class WorkerMemory::WorkerBlock final : public SegmentBlock {
 public:
  WorkerBlock(std::shared_ptr<WorkerMemory> memory, std::shared_ptr<Segment> segment,
              const MemoryHandle& handle)
      : memory_(std::move(memory)), segment_(std::move(segment)), handle_(handle) {}
  ~WorkerBlock() override { memory_->Release(handle_); }
  const std::shared_ptr<Segment>& segment() const override { return segment_; }

 private:
  const std::shared_ptr<WorkerMemory> memory_;
  const std::shared_ptr<Segment> segment_;
  const MemoryHandle handle_;
};

WorkerMemory::WorkerMemory(std::shared_ptr<Channel> channel, BufferAllocator& arena)
    : channel_(std::move(channel)), arena_(arena) {}

Status WorkerMemory::AnnounceLocked(const Segment& segment) {
  if (!announced_.insert(segment.id()).second) return OkStatus();
  Status sent = channel_->SendSegment(segment, segment.id());
  if (!sent.ok()) announced_.erase(segment.id());
  return sent;
}

Status WorkerMemory::Lend(const Buffer& buffer, TensorMessage& tensor) {
  if (buffer.size() <= kInlineTensorBytes) {
    tensor.place = Place::kInline;
    tensor.bytes = {buffer.data(), buffer.size()};
    return OkStatus();
  }
  Buffer lent = buffer;
  auto* block = dynamic_cast<SegmentBlock*>(lent.owner());
  if (block == nullptr) {
    BRAID_ASSIGN_OR_RETURN(lent, arena_.Allocate(buffer.size()));
    std::memcpy(lent.mutable_data(), buffer.data(), buffer.size());
    block = dynamic_cast<SegmentBlock*>(lent.owner());
    BRAID_CHECK(block != nullptr);
  }
  const Segment& segment = *block->segment();
  tensor.place = Place::kSenderMemory;
  tensor.handle = {segment.id(), static_cast<uint64_t>(lent.data() - segment.base()), lent.size()};
  std::lock_guard lock(mutex_);
  // Nobody would give it back.
  if (abandoned_) return UnavailableError("the worker is gone");
  BRAID_RETURN_IF_ERROR(AnnounceLocked(segment));
  Lent& entry = lent_[{tensor.handle.segment, tensor.handle.offset}];
  // Two slices may begin at one place; the longer one holds for both.
  if (entry.times++ == 0 || entry.buffer.size() < lent.size()) entry.buffer = std::move(lent);
  return OkStatus();
}

Result<Buffer> WorkerMemory::Take(const TensorMessage& tensor, std::vector<Buffer>& returned) {
  const MemoryHandle& handle = tensor.handle;
  switch (tensor.place) {
    case Place::kInline:
      return CopyToHeap(tensor.bytes);
    case Place::kSenderMemory: {
      BRAID_ASSIGN_OR_RETURN(auto segment, worker_segments_.FindOrReceive(handle.segment, *channel_));
      if (handle.size == 0 || !segment->Contains(handle.offset, handle.size)) {
        return InvalidArgumentError("the worker names memory beyond its segment");
      }
      std::byte* data = segment->base() + handle.offset;
      return Buffer(data, handle.size, new WorkerBlock(shared_from_this(), std::move(segment), handle));
    }
    case Place::kReceiverMemory:
      break;
  }
  Buffer block;
  uint64_t start = 0;
  {
    std::lock_guard lock(mutex_);
    auto it = lent_.upper_bound({handle.segment, handle.offset});
    if (it != lent_.begin()) {
      --it;
      if (it->first.first == handle.segment && handle.offset - it->first.second <= it->second.buffer.size()) {
        start = it->first.second;
        block = it->second.buffer;
        if (--it->second.times == 0) lent_.erase(it);
      }
    }
  }
  if (block.empty()) {
    for (const Buffer& candidate : returned) {
      const auto* owner = dynamic_cast<SegmentBlock*>(candidate.owner());
      const uint64_t at = static_cast<uint64_t>(candidate.data() - owner->segment()->base());
      if (owner->segment()->id() == handle.segment && handle.offset >= at &&
          handle.offset - at <= candidate.size()) {
        start = at;
        block = candidate;
        break;
      }
    }
  } else {
    returned.push_back(block);
  }
  const uint64_t into = handle.offset - start;
  if (block.empty() || handle.size > block.size() - into) {
    return InvalidArgumentError("the worker gives back memory that it was not lent");
  }
  return block.Slice(into, handle.size);
}

Status WorkerMemory::OnRelease(const ReleaseMessage& message) {
  for (const MemoryHandle& handle : message.handles) {
    Buffer freed;  // goes after the lock
    std::lock_guard lock(mutex_);
    auto it = lent_.find({handle.segment, handle.offset});
    if (it == lent_.end()) return InvalidArgumentError("the worker frees memory that it was not lent");
    if (--it->second.times == 0) {
      freed = std::move(it->second.buffer);
      lent_.erase(it);
    }
  }
  return OkStatus();
}

void WorkerMemory::RetireOwn(uint32_t segment) {
  std::lock_guard lock(mutex_);
  if (announced_.erase(segment) == 0 || abandoned_) return;
  std::vector<std::byte> message;
  EncodeRetireSegment(message, segment);
  // A worker that cannot be told is about to be ended, and its mappings with it.
  (void)channel_->Send(message);
}

void WorkerMemory::Release(const MemoryHandle& handle) {
  if (abandoned_) return;
  const uint64_t waiting = quietly_released_.fetch_add(handle.size) + handle.size;
  const bool wake = waiting >= kWakeForBytes;
  if (wake) quietly_released_ = 0;
  std::vector<std::byte> message;
  Encode(message, ReleaseMessage{{handle}});
  (void)channel_->Send(message, !wake);
}

void WorkerMemory::Abandon() {
  abandoned_ = true;
  std::map<LentKey, Lent> lent;
  std::lock_guard lock(mutex_);
  lent.swap(lent_);
}

}  // namespace braid
