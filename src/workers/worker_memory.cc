#include "workers/worker_memory.h"

#include <cstring>

#include "base/guard.h"

namespace braid {
namespace {

// A sleeping worker learns of freed memory with its next request. It is woken for this many bytes.
constexpr uint64_t kWakeWorkerForBytes = uint64_t{8} << 20;

// Arenas put blocks up to this size into shared segments; see ipc/arena.h.
constexpr size_t kLargestShared = size_t{64} << 10;

// Whether a segment holds nothing but the buffer: arenas waste less than a fourth of it, and leave zeros
// there. A sound worker never puts two tensors that close; a compromised one exposes only its own data.
bool HasSegmentToItself(const Buffer& buffer, const Segment& segment) {
  return segment.size() > kLargestShared && buffer.data() == segment.base() &&
         segment.size() - buffer.size() <= segment.size() / 4;
}

}  // namespace

// A block of the worker in use by the server. Its destructor returns it to the worker.
class WorkerMemory::WorkerBlock final : public SegmentBlock {
 public:
  WorkerBlock(std::shared_ptr<WorkerMemory> memory, std::shared_ptr<WorkerSegment> segment,
              const MemoryHandle& handle)
      : memory_(std::move(memory)), segment_(std::move(segment)), handle_(handle) {}
  ~WorkerBlock() override { memory_->Release(handle_); }
  const std::shared_ptr<Segment>& segment() const override { return segment_->memory(); }
  WorkerSegment& worker_segment() const { return *segment_; }

 private:
  const std::shared_ptr<WorkerMemory> memory_;
  const std::shared_ptr<WorkerSegment> segment_;  // shared with the other blocks in it
  const MemoryHandle handle_;
};

WorkerMemory::Loan::~Loan() {
  // A worker that breaks the rules may have returned them already, so errors are ignored.
  (void)memory_.Return(lent_);
}

Status WorkerMemory::Loan::Lend(const Buffer& buffer, bool sole, TensorMessage& tensor) {
  BRAID_RETURN_IF_ERROR(memory_.Lend(buffer, sole, tensor));
  if (tensor.place != Place::kInline) lent_.push_back(tensor.handle);
  return OkStatus();
}

WorkerMemory::WorkerMemory(std::shared_ptr<Channel> channel, Arena& arena)
    : channel_(std::move(channel)), arena_(arena) {}

Status WorkerMemory::Announce(const Segment& segment, const Showable& as) {
  if (!announced_.insert(as.id).second) return OkStatus();
  Status sent = channel_->SendSegment(segment, as.id);
  if (!sent.ok()) {
    announced_.erase(as.id);
  } else if (as.made_by_worker != nullptr) {
    as.made_by_worker->AddViewer(weak_from_this());
  }
  return sent;
}

WorkerMemory::Showable WorkerMemory::ShowableAs(const Buffer& buffer, bool sole) const {
  const auto* block = dynamic_cast<SegmentBlock*>(buffer.owner());
  if (block == nullptr) return {};
  const Segment& segment = *block->segment();
  const auto* workers = dynamic_cast<const WorkerBlock*>(block);
  // The model's own memory is visible to its workers anyway.
  if (workers == nullptr && arena_.Made(*block)) return {segment.id(), sole, nullptr};
  // Each tensor on a GPU has its own segment, and its maker does not access it any more.
  if (buffer.on_device()) return {workers->worker_segment().id(), sole, &workers->worker_segment()};
  if (!HasSegmentToItself(buffer, segment)) return {};
  if (workers == nullptr) return {segment.id(), false, nullptr};
  return {workers->worker_segment().id(), false, &workers->worker_segment()};
}

Status WorkerMemory::Lend(const Buffer& buffer, bool sole, TensorMessage& tensor) {
  if (buffer.size() <= kInlineTensorBytes && !buffer.on_device()) {
    tensor.place = Place::kInline;
    tensor.bytes = {buffer.data(), buffer.size()};
    return OkStatus();
  }
  Buffer lent = buffer;
  Showable as = ShowableAs(lent, sole);
  if (as.id == 0) {
    BRAID_ASSIGN_OR_RETURN(lent, arena_.Allocate(buffer.size()));
    std::memcpy(lent.mutable_data(), buffer.data(), buffer.size());
    as = ShowableAs(lent, true);
  }
  const Segment& segment = *static_cast<SegmentBlock*>(lent.owner())->segment();
  if (segment.on_device()) {
    tensor.place = as.sole ? Place::kDeviceMemory : Place::kSharedDeviceMemory;
    tensor.handle = {as.id, 0, lent.size()};
  } else {
    tensor.place = as.sole ? Place::kSenderMemory : Place::kSharedMemory;
    tensor.handle = {as.id, static_cast<uint64_t>(lent.data() - segment.base()), lent.size()};
  }
  MutexLock lock(mutex_);
  // A dead worker would never return it.
  if (abandoned_) return UnavailableError("the worker is gone");
  BRAID_RETURN_IF_ERROR(Announce(segment, as));
  Lent& entry = lent_[{tensor.handle.segment, tensor.handle.offset}];
  // Two slices may begin at one place; the longer one keeps both.
  if (entry.times++ == 0 || entry.buffer.size() < lent.size()) entry.buffer = std::move(lent);
  return OkStatus();
}

Result<std::shared_ptr<WorkerSegment>> WorkerMemory::FindSegment(uint32_t id) {
  BRAID_ASSIGN_OR_RETURN(auto memory, worker_segments_.FindOrReceive(id, *channel_));
  std::shared_ptr<WorkerSegment>& known = known_segments_[id];
  // The worker may reuse an id.
  if (!known || known->memory() != memory) known = std::make_shared<WorkerSegment>(memory, arena_.ids());
  return known;
}

Status WorkerMemory::ReceiveSegments() {
  for (;;) {
    BRAID_ASSIGN_OR_RETURN(auto segment, channel_->ReceiveSegment(false));
    if (!segment) return OkStatus();
    worker_segments_.Add(std::move(segment));
  }
}

Status WorkerMemory::OnRetire(uint32_t segment) {
  // A segment that was never named may not have been received yet.
  if (worker_segments_.Find(segment) == nullptr) BRAID_RETURN_IF_ERROR(ReceiveSegments());
  worker_segments_.Remove(segment);
  known_segments_.erase(segment);
  return OkStatus();
}

Result<Buffer> WorkerMemory::Take(const TensorMessage& tensor, Returned& returned, bool device) {
  const MemoryHandle& handle = tensor.handle;
  switch (tensor.place) {
    case Place::kInline:
      return CopyToHeap(tensor.bytes);
    case Place::kSenderMemory: {
      BRAID_ASSIGN_OR_RETURN(auto segment, FindSegment(handle.segment));
      if (handle.size == 0 || segment->memory()->on_device() ||
          !segment->memory()->Contains(handle.offset, handle.size)) {
        return InvalidArgumentError("the worker names memory beyond its segment");
      }
      std::byte* data = segment->memory()->base() + handle.offset;
      return Buffer(data, handle.size, new WorkerBlock(shared_from_this(), std::move(segment), handle));
    }
    case Place::kDeviceMemory: {
      if (!device) return InvalidArgumentError("the worker left a tensor on a GPU");
      BRAID_ASSIGN_OR_RETURN(auto segment, FindSegment(handle.segment));
      if (handle.size == 0 || !segment->memory()->on_device() || handle.offset != 0 ||
          !segment->memory()->Contains(0, handle.size)) {
        return InvalidArgumentError("the worker names GPU memory beyond its segment");
      }
      // Strings must be read on the CPU.
      if (tensor.type == DataType::kBytes) return InvalidArgumentError("the worker left strings on a GPU");
      return Buffer(nullptr, handle.size, new WorkerBlock(shared_from_this(), std::move(segment), handle));
    }
    case Place::kSharedMemory:
    case Place::kSharedDeviceMemory:
      return InvalidArgumentError("the worker lent memory that it shares with others");
    case Place::kReceiverMemory:
      break;
  }
  Buffer block;
  uint64_t start = 0;
  {
    MutexLock lock(mutex_);
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
    for (const auto& [place, candidate] : returned) {
      if (place.segment == handle.segment && handle.offset >= place.offset &&
          handle.offset - place.offset <= candidate.size()) {
        start = place.offset;
        block = candidate;
        break;
      }
    }
  } else {
    returned.emplace_back(MemoryHandle{handle.segment, start, block.size()}, block);
  }
  const uint64_t into = handle.offset - start;
  if (block.empty() || handle.size > block.size() - into) {
    return InvalidArgumentError("the worker returned memory that was not lent to it");
  }
  return block.Slice(into, handle.size);
}

Status WorkerMemory::Return(std::span<const MemoryHandle> handles) {
  for (const MemoryHandle& handle : handles) {
    Buffer freed;  // freed after the lock is released
    MutexLock lock(mutex_);
    auto it = lent_.find({handle.segment, handle.offset});
    if (it == lent_.end()) return InvalidArgumentError("the worker freed memory that was not lent to it");
    if (--it->second.times == 0) {
      freed = std::move(it->second.buffer);
      lent_.erase(it);
    }
  }
  return OkStatus();
}

void WorkerMemory::RetireOwn(uint32_t segment) {
  MutexLock lock(mutex_);
  if (announced_.erase(segment) == 0 || abandoned_) return;
  std::vector<std::byte> message;
  Encode(message, RetireSegmentMessage{segment});
  // If this cannot be sent, the worker is about to be ended, with its mappings.
  (void)channel_->Send(message);
}

void WorkerMemory::Release(const MemoryHandle& handle) {
  if (abandoned_) return;
  const RetryingAllocation retrying;
  const uint64_t waiting = quietly_released_.fetch_add(handle.size) + handle.size;
  const bool wake = waiting >= kWakeWorkerForBytes;
  if (wake) quietly_released_ = 0;
  std::vector<std::byte> message;
  Encode(message, ReleaseMessage{{handle}});
  (void)channel_->Send(message, !wake);
}

void WorkerMemory::Abandon() {
  abandoned_ = true;
  std::map<LentKey, Lent> lent;
  MutexLock lock(mutex_);
  lent.swap(lent_);
}

bool IsSoleHolder(const std::vector<Tensor>& inputs, size_t index) {
  const Buffer& buffer = inputs[index].data;
  const BufferOwner* owner = buffer.owner();
  if (owner == nullptr) return false;
  if (owner->unique()) return true;
  uint32_t ours = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Buffer& other = inputs[i].data;
    if (other.owner() != owner) continue;
    ++ours;
    if (i != index && buffer.on_device()) return false;
    if (i != index && other.data() < buffer.data() + buffer.size() &&
        buffer.data() < other.data() + other.size())
      return false;
  }
  return owner->references() == ours;
}

}  // namespace braid
