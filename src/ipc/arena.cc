#include "ipc/arena.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <unordered_set>
#include <utility>

#include "base/clock.h"
#include "base/guard.h"
#include "base/memory_use.h"
#include "base/mutex.h"

namespace braid {
namespace {

constexpr size_t kSmallest = 256;
constexpr size_t kLargestShared = size_t{64} << 10;  // beyond it, a block has its own segment
constexpr size_t kSlabBytes = size_t{1} << 20;
constexpr size_t kPage = 4096;

struct SizeClass {
  size_t index;
  size_t block_size;
};

// Powers of two up to kLargestShared; above it, four steps per power of two, so that at most a fifth is
// wasted.
SizeClass ClassOf(size_t size) {
  if (size <= kSmallest) return {0, kSmallest};
  const auto log = static_cast<size_t>(std::bit_width(size - 1));  // size <= 1 << log
  if (size <= kLargestShared) return {log - 8, size_t{1} << log};
  const size_t step = size_t{1} << (log - 3);
  const size_t quarters = (size + step - 1) / step;  // 5..8
  return {9 + (log - 17) * 4 + (quarters - 5), quarters * step};
}

constexpr size_t kClasses = 9 + (63 - 17) * 4 + 4;

}  // namespace

class Arena::State : public std::enable_shared_from_this<State> {
 public:
  State(SegmentIds& ids, const Options& options) : ids_(ids), options_(options) {}
  ~State() { BRAID_CHECK(blocks_in_use_ == 0); }

  Result<Buffer> Allocate(size_t size);
  std::vector<uint32_t> Trim(int64_t now_ns);
  // The arena is destroyed: from now on no idle memory is kept.
  void Close();
  bool Made(const SegmentBlock& block) const {
    const auto* ours = dynamic_cast<const Block*>(&block);
    return ours != nullptr && ours->keeper.get() == this;
  }
  SegmentIds& ids() const { return ids_; }
  bool has_excess() const {
    MutexLock lock(mutex_);
    return idle_bytes_ > options_.keep_bytes || !unreported_.empty();
  }
  Usage usage() const {
    MutexLock lock(mutex_);
    return {segment_bytes_, idle_bytes_, slabs_.size()};
  }

 private:
  struct Slab;
  class Block final : public SegmentBlock {
   public:
    const std::shared_ptr<Segment>& segment() const override { return slab->segment; }

    Slab* slab = nullptr;
    size_t offset = 0;
    Block* next_free = nullptr;
    MemoryCharge charge;            // while in use
    std::shared_ptr<State> keeper;  // set while in use

    void Reuse() { ResetReferences(); }

   private:
    void Destroy() override {
      // The last block of a closed arena may destroy the state, so a local reference holds it while it takes
      // the block back.
      std::shared_ptr<State> state = std::move(keeper);
      const RetryingAllocation retrying;
      state->Free(this);
    }
  };
  struct Slab {
    std::shared_ptr<Segment> segment;  // shared with users of blocks, which may let other processes map it
    size_t class_index = 0;
    std::unique_ptr<Block[]> blocks;
    size_t count = 0;
    size_t in_use = 0;
    size_t used = 0;  // for a segment with one block: the bytes that may not be zero any more; written by the
                      // block's holder
    Block* free = nullptr;
    int64_t idle_since_ns = 0;
    bool listed = false;  // in its class's list of slabs with free blocks
  };

  using Slabs = std::vector<std::unique_ptr<Slab>>;

  Status Reserve(size_t bytes, Slabs& dead) BRAID_REQUIRES(mutex_);
  void AddSlab(const SizeClass& size_class, std::shared_ptr<Segment> segment) BRAID_REQUIRES(mutex_);
  Buffer TakeBlock(const SizeClass& size_class, size_t size) BRAID_REQUIRES(mutex_);
  template <class Wanted>
  void RemoveIdle(Wanted wanted, Slabs& dead) BRAID_REQUIRES(mutex_);
  void Free(Block* block);
  Result<Buffer> AllocateBlock(const SizeClass& size_class, size_t size);
  static void ClearBehind(Buffer& buffer);

  SegmentIds& ids_;
  const Options options_;
  mutable Mutex mutex_;
  // A class's list has its slabs with free blocks. A full slab is appended when it gets a block back, and
  // blocks are taken from the end.
  std::array<std::vector<Slab*>, kClasses> free_slabs_ BRAID_GUARDED_BY(mutex_);
  Slabs slabs_ BRAID_GUARDED_BY(mutex_);
  size_t segment_bytes_ BRAID_GUARDED_BY(mutex_) = 0;  // including segments that are being created
  size_t idle_bytes_ BRAID_GUARDED_BY(mutex_) = 0;
  size_t blocks_in_use_ BRAID_GUARDED_BY(mutex_) = 0;
  // Ids of destroyed segments, to be reported by Trim().
  std::vector<uint32_t> unreported_ BRAID_GUARDED_BY(mutex_);
  bool closed_ BRAID_GUARDED_BY(mutex_) = false;
};

// Removes the idle slabs that `wanted` selects from the state. `wanted` is called for each slab after the
// previous one was removed. The caller destroys them without the lock.
template <class Wanted>
void Arena::State::RemoveIdle(Wanted wanted, Slabs& dead) {
  std::unordered_set<Slab*> removed;
  for (auto& slab : slabs_) {
    if (slab->in_use != 0 || !wanted(*slab)) continue;
    idle_bytes_ -= slab->segment->size();
    segment_bytes_ -= slab->segment->size();
    unreported_.push_back(slab->segment->id());
    removed.insert(slab.get());
    dead.push_back(std::move(slab));
  }
  if (removed.empty()) return;
  std::erase_if(slabs_, [](const auto& slab) { return slab == nullptr; });
  for (auto& list : free_slabs_) {
    std::erase_if(list, [&removed](Slab* slab) { return removed.contains(slab); });
  }
}

// Counts `bytes` as mapped if the budget allows it.
Status Arena::State::Reserve(size_t bytes, Slabs& dead) {
  const size_t budget = options_.max_bytes;
  const size_t used = segment_bytes_ - idle_bytes_;
  if (budget != 0 && (used > budget || bytes > budget - used)) {
    const std::string option = options_.max_bytes_option;
    return UnavailableError("shared memory budget of " + std::to_string(budget) + " bytes is used up (" +
                            std::to_string(used) + " in use, " + std::to_string(bytes) + " more wanted)" +
                            (option.empty() ? "" : "; raise " + option));
  }
  // Idle slabs of other size classes make room.
  if (budget != 0) {
    RemoveIdle(
        [&](const Slab&) {
          mutex_.AssertHeld();  // it is called by RemoveIdle()
          return segment_bytes_ > budget - bytes;
        },
        dead);
  }
  segment_bytes_ += bytes;
  return OkStatus();
}

void Arena::State::AddSlab(const SizeClass& size_class, std::shared_ptr<Segment> segment) {
  auto slab = std::make_unique<Slab>();
  slab->count = std::max<size_t>(1, segment->size() / size_class.block_size);
  slab->segment = std::move(segment);
  slab->class_index = size_class.index;
  slab->blocks = std::make_unique<Block[]>(slab->count);
  for (size_t i = slab->count; i-- > 0;) {
    Block& block = slab->blocks[i];
    block.slab = slab.get();
    block.offset = i * size_class.block_size;
    block.next_free = slab->free;
    slab->free = &block;
  }
  slab->listed = true;
  idle_bytes_ += slab->segment->size();
  free_slabs_[size_class.index].push_back(slab.get());
  slabs_.push_back(std::move(slab));
}

// REQUIRES: the class has a free block.
Buffer Arena::State::TakeBlock(const SizeClass& size_class, size_t size) {
  auto& list = free_slabs_[size_class.index];
  Slab* slab = list.back();
  Block* block = slab->free;
  slab->free = block->next_free;
  if (slab->in_use++ == 0) idle_bytes_ -= slab->segment->size();
  if (slab->free == nullptr) {
    slab->listed = false;
    list.pop_back();
  }
  ++blocks_in_use_;
  block->charge.Set(static_cast<int64_t>(size));
  block->Reuse();
  block->keeper = shared_from_this();
  return Buffer(slab->segment->base() + block->offset, size, block);
}

Result<Buffer> Arena::State::Allocate(size_t size) {
  if (size == 0) return Buffer();
  if (size > SIZE_MAX / 4)
    return InvalidArgumentError("a buffer cannot have " + std::to_string(size) + " bytes");
  const SizeClass size_class = ClassOf(size);
  BRAID_ASSIGN_OR_RETURN(Buffer buffer, AllocateBlock(size_class, size));
  if (size_class.block_size > kLargestShared) ClearBehind(buffer);
  return buffer;
}

// Zeroes the bytes that an earlier, longer buffer has left after this one in its segment.
void Arena::State::ClearBehind(Buffer& buffer) {
  size_t& used = static_cast<Block*>(buffer.owner())->slab->used;
  if (used > buffer.size()) std::memset(buffer.mutable_data() + buffer.size(), 0, used - buffer.size());
  used = buffer.size();
}

Result<Buffer> Arena::State::AllocateBlock(const SizeClass& size_class, size_t size) {
  const bool own_segment = size_class.block_size > kLargestShared;
  const size_t bytes = own_segment ? (size_class.block_size + kPage - 1) / kPage * kPage : kSlabBytes;
  {
    Slabs dead;  // unmapped after the lock is released
    MutexLock lock(mutex_);
    if (!free_slabs_[size_class.index].empty()) return TakeBlock(size_class, size);
    const RetryingAllocation retrying;
    BRAID_RETURN_IF_ERROR(Reserve(bytes, dead));
  }
  const RetryingAllocation retrying;  // the bytes are counted, and a slab must get into both of its lists
  // The system is called without the lock. Two threads may do this for one class, which is harmless.
  auto segment = Segment::Create(ids_.Next(), bytes);
  MutexLock lock(mutex_);
  if (!segment.ok()) {
    segment_bytes_ -= bytes;
    return segment.status();
  }
  AddSlab(size_class, std::move(segment).value());
  return TakeBlock(size_class, size);
}

void Arena::State::Free(Block* block) {
  const int64_t now = SteadyNowNs();
  Slabs dead;  // unmapped after the lock is released
  MutexLock lock(mutex_);
  Slab* slab = block->slab;
  block->charge.Set(0);
  block->next_free = slab->free;
  slab->free = block;
  if (!slab->listed) {
    slab->listed = true;
    free_slabs_[slab->class_index].push_back(slab);
  }
  --blocks_in_use_;
  if (--slab->in_use != 0) return;
  idle_bytes_ += slab->segment->size();
  slab->idle_since_ns = now;
  if (closed_) RemoveIdle([](const Slab&) { return true; }, dead);
}

std::vector<uint32_t> Arena::State::Trim(int64_t now_ns) {
  const RetryingAllocation retrying;
  Slabs dead;  // unmapped after the lock is released
  MutexLock lock(mutex_);
  if (idle_bytes_ > options_.keep_bytes) {
    RemoveIdle(
        [&](const Slab& slab) {
          mutex_.AssertHeld();  // it is called by RemoveIdle()
          return idle_bytes_ > options_.keep_bytes && now_ns - slab.idle_since_ns >= options_.idle_ns;
        },
        dead);
  }
  return std::exchange(unreported_, {});
}

void Arena::State::Close() {
  const RetryingAllocation retrying;
  Slabs dead;  // unmapped after the lock is released
  MutexLock lock(mutex_);
  closed_ = true;
  RemoveIdle([](const Slab&) { return true; }, dead);
}

Arena::Arena(SegmentIds& ids, const Options& options) : state_(std::make_shared<State>(ids, options)) {}
Arena::~Arena() { state_->Close(); }

Result<Buffer> Arena::Allocate(size_t size) { return state_->Allocate(size); }
std::vector<uint32_t> Arena::Trim(int64_t now_ns) { return state_->Trim(now_ns); }
bool Arena::has_excess() const { return state_->has_excess(); }
Arena::Usage Arena::usage() const { return state_->usage(); }
bool Arena::Made(const SegmentBlock& block) const { return state_->Made(block); }
SegmentIds& Arena::ids() const { return state_->ids(); }

}  // namespace braid
