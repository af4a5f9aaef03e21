#include "ipc/arena.h"

#include <array>
#include <bit>
#include <mutex>
#include <unordered_set>

#include "base/clock.h"

namespace braid {
namespace {

constexpr size_t kSmallest = 256;
constexpr size_t kLargestShared = size_t{64} << 10;  // beyond it, a block has a segment of its own
constexpr size_t kSlabBytes = size_t{1} << 20;
constexpr size_t kPage = 4096;

struct SizeClass {
  size_t index;
  size_t block_size;
};

// Powers of two up to kLargestShared; above, four steps to each power of two, so that at most a fifth is
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
  bool has_excess() const {
    std::lock_guard lock(mutex_);
    return idle_bytes_ > options_.keep_bytes;
  }
  Usage usage() const {
    std::lock_guard lock(mutex_);
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
    std::shared_ptr<State> keeper;  // set while in use

    void Reuse() { ResetReferences(); }

   private:
    void Destroy() override {
      // The state may go with the last block of a closed arena, so it is held on the stack while it takes the
      // block back.
      std::shared_ptr<State> state = std::move(keeper);
      state->Free(this);
    }
  };
  struct Slab {
    std::shared_ptr<Segment> segment;  // shared with blocks' users, who may map it to others
    size_t class_index = 0;
    std::unique_ptr<Block[]> blocks;
    size_t count = 0;
    size_t in_use = 0;
    Block* free = nullptr;
    int64_t idle_since_ns = 0;
    bool listed = false;  // in its class's list of slabs with free blocks
  };

  Result<Slab*> AddSlabLocked(const SizeClass& size_class);
  void Free(Block* block);

  SegmentIds& ids_;
  const Options options_;
  mutable std::mutex mutex_;
  // Guarded by mutex_. The last slab of a class's list is the one used last.
  std::array<std::vector<Slab*>, kClasses> free_slabs_;
  std::vector<std::unique_ptr<Slab>> slabs_;
  size_t segment_bytes_ = 0;
  size_t idle_bytes_ = 0;
  size_t blocks_in_use_ = 0;
};

Result<Arena::State::Slab*> Arena::State::AddSlabLocked(const SizeClass& size_class) {
  const bool own_segment = size_class.block_size > kLargestShared;
  const size_t bytes = own_segment ? (size_class.block_size + kPage - 1) / kPage * kPage : kSlabBytes;
  if (options_.max_bytes != 0 && bytes > options_.max_bytes - std::min(options_.max_bytes, segment_bytes_)) {
    return UnavailableError("shared memory budget of " + std::to_string(options_.max_bytes) +
                            " bytes is used up (" + std::to_string(segment_bytes_) + " in use, " +
                            std::to_string(bytes) + " more wanted); raise " + options_.max_bytes_option);
  }
  BRAID_ASSIGN_OR_RETURN(auto segment, Segment::Create(ids_.Next(), bytes));
  auto slab = std::make_unique<Slab>();
  slab->segment = std::move(segment);
  slab->class_index = size_class.index;
  slab->count = own_segment ? 1 : bytes / size_class.block_size;
  slab->blocks = std::make_unique<Block[]>(slab->count);
  for (size_t i = slab->count; i-- > 0;) {
    Block& block = slab->blocks[i];
    block.slab = slab.get();
    block.offset = i * size_class.block_size;
    block.next_free = slab->free;
    slab->free = &block;
  }
  segment_bytes_ += slab->segment->size();
  idle_bytes_ += slab->segment->size();
  slabs_.push_back(std::move(slab));
  return slabs_.back().get();
}

Result<Buffer> Arena::State::Allocate(size_t size) {
  if (size == 0) return Buffer();
  if (size > SIZE_MAX / 4)
    return InvalidArgumentError("a buffer cannot have " + std::to_string(size) + " bytes");
  const SizeClass size_class = ClassOf(size);
  std::lock_guard lock(mutex_);
  auto& list = free_slabs_[size_class.index];
  if (list.empty()) {
    BRAID_ASSIGN_OR_RETURN(Slab * fresh, AddSlabLocked(size_class));
    fresh->listed = true;
    list.push_back(fresh);
  }
  Slab* slab = list.back();
  Block* block = slab->free;
  slab->free = block->next_free;
  if (slab->in_use++ == 0) idle_bytes_ -= slab->segment->size();
  if (slab->free == nullptr) {
    slab->listed = false;
    list.pop_back();
  }
  ++blocks_in_use_;
  block->Reuse();
  block->keeper = shared_from_this();
  return Buffer(slab->segment->base() + block->offset, size, block);
}

void Arena::State::Free(Block* block) {
  const int64_t now = SteadyNowNs();
  std::lock_guard lock(mutex_);
  Slab* slab = block->slab;
  block->next_free = slab->free;
  slab->free = block;
  if (!slab->listed) {
    slab->listed = true;
    free_slabs_[slab->class_index].push_back(slab);
  }
  if (--slab->in_use == 0) {
    idle_bytes_ += slab->segment->size();
    slab->idle_since_ns = now;
  }
  --blocks_in_use_;
}

std::vector<uint32_t> Arena::State::Trim(int64_t now_ns) {
  std::vector<uint32_t> gone;
  std::vector<std::unique_ptr<Slab>> dead;  // unmapped after the lock is given up
  std::lock_guard lock(mutex_);
  if (idle_bytes_ <= options_.keep_bytes) return gone;
  std::unordered_set<Slab*> removed;
  for (auto& slab : slabs_) {
    if (idle_bytes_ <= options_.keep_bytes) break;
    if (slab->in_use != 0 || now_ns - slab->idle_since_ns < options_.idle_ns) continue;
    idle_bytes_ -= slab->segment->size();
    segment_bytes_ -= slab->segment->size();
    gone.push_back(slab->segment->id());
    removed.insert(slab.get());
    dead.push_back(std::move(slab));
  }
  if (removed.empty()) return gone;
  std::erase_if(slabs_, [](const auto& slab) { return slab == nullptr; });
  for (auto& list : free_slabs_) {
    std::erase_if(list, [&removed](Slab* slab) { return removed.contains(slab); });
  }
  return gone;
}

Arena::Arena(SegmentIds& ids, const Options& options) : state_(std::make_shared<State>(ids, options)) {}
Arena::~Arena() = default;

Result<Buffer> Arena::Allocate(size_t size) { return state_->Allocate(size); }
std::vector<uint32_t> Arena::Trim(int64_t now_ns) { return state_->Trim(now_ns); }
bool Arena::has_excess() const { return state_->has_excess(); }
Arena::Usage Arena::usage() const { return state_->usage(); }

}  // namespace braid
