#include "worker/extension/device_pool.h"

#include <algorithm>
#include <utility>

namespace braid {
namespace {

// Acceptable waste in a block; for larger tensors, their own size.
constexpr size_t kLeftOver = size_t{4} << 20;

}  // namespace

class DevicePool::Block final : public SegmentBlock {
 public:
  Block(std::unique_ptr<DeviceMemory> memory, std::shared_ptr<Segment> segment)
      : memory_(std::move(memory)), segment_(std::move(segment)) {}
  ~Block() override = default;

  const std::shared_ptr<Segment>& segment() const override { return segment_; }
  const DeviceMemory& memory() const { return *memory_; }
  // Starts the use by one tensor; the pool lives at least as long as the use.
  void Begin(std::shared_ptr<DevicePool> pool, size_t bytes) {
    ResetReferences();
    pool_ = std::move(pool);
    bytes_ = bytes;
  }
  size_t TakeDirty() { return std::exchange(dirty_, bytes_); }

 private:
  void Destroy() override {
    const std::shared_ptr<DevicePool> pool = std::move(pool_);
    pool->GiveBack(*this);
  }

  const std::unique_ptr<DeviceMemory> memory_;
  const std::shared_ptr<Segment> segment_;  // shared with senders of the segment
  std::shared_ptr<DevicePool> pool_;
  size_t bytes_ = 0;
  size_t dirty_ = 0;
};

DevicePool::DevicePool(std::shared_ptr<CudaContext> context, SegmentIds& ids, size_t keep_bytes)
    : context_(std::move(context)), ids_(ids), keep_bytes_(keep_bytes) {}

DevicePool::~DevicePool() = default;

Result<Buffer> DevicePool::Allocate(size_t size) {
  std::unique_ptr<Block> block = TakeIdle(size);
  if (block == nullptr) {
    BRAID_ASSIGN_OR_RETURN(auto memory, DeviceMemory::Create(context_, size));
    BRAID_ASSIGN_OR_RETURN(UniqueFd descriptor, memory->Export());
    BRAID_ASSIGN_OR_RETURN(auto segment, Segment::OfDevice(ids_.Next(), std::move(descriptor), memory->size(),
                                                           context_->uuid().bytes));
    block = std::make_unique<Block>(std::move(memory), std::move(segment));
  }
  block->Begin(shared_from_this(), size);
  return Buffer(nullptr, size, block.release());
}

std::unique_ptr<DevicePool::Block> DevicePool::TakeIdle(size_t size) {
  MutexLock lock(mutex_);
  auto best = idle_.end();
  for (auto it = idle_.begin(); it != idle_.end(); ++it) {
    const size_t has = (*it)->memory().size();
    if (has < size || has - size > std::max(size, kLeftOver)) continue;
    if (best == idle_.end() || has < (*best)->memory().size()) best = it;
  }
  if (best == idle_.end()) return nullptr;
  std::unique_ptr<Block> block = std::move(*best);
  idle_.erase(best);
  idle_bytes_ -= block->memory().size();
  return block;
}

size_t DevicePool::idle_bytes() const {
  MutexLock lock(mutex_);
  return idle_bytes_;
}

std::vector<DevicePool::Gone> DevicePool::TakeGone() {
  MutexLock lock(mutex_);
  return std::exchange(gone_, {});
}

CudaAddress DevicePool::AddressOf(const Buffer& buffer) {
  return static_cast<Block*>(buffer.owner())->memory().address();
}

size_t DevicePool::TakeDirty(const Buffer& buffer) {
  return static_cast<Block*>(buffer.owner())->TakeDirty();
}

void DevicePool::GiveBack(Block& block) {
  MutexLock lock(mutex_);
  idle_.emplace_front(&block);
  idle_bytes_ += block.memory().size();
  while (idle_bytes_ > keep_bytes_) {
    idle_bytes_ -= idle_.back()->memory().size();
    const uint32_t segment = idle_.back()->segment()->id();
    gone_.push_back({segment, std::move(idle_.back())});
    idle_.pop_back();
  }
}

}  // namespace braid
