#include "custom_nodes/memory.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>

namespace braid::custom_nodes {

struct alignas(64) Memory::Header {
  Kind kind;
  size_t capacity;
};

Memory::~Memory() {
  for (const auto& [kind, blocks] : blocks_) {
    for (Header* block : blocks) std::free(block);
  }
}

void* Memory::Take(const Kind& kind, size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = blocks_.find(kind); found != blocks_.end() && !found->second.empty()) {
      auto& blocks = found->second;
      const auto fits = std::ranges::find_if(blocks, [&](Header* block) { return block->capacity >= bytes; });
      // A block that is too small for this request makes room for one that is not.
      const auto chosen = fits == blocks.end() ? blocks.begin() : fits;
      Header* const block = *chosen;
      blocks.erase(chosen);
      if (block->capacity >= bytes) return block + 1;
      std::free(block);
    }
  }
  if (bytes > std::numeric_limits<size_t>::max() - 2 * sizeof(Header)) throw std::bad_alloc();
  const size_t rounded = (bytes + sizeof(Header) - 1) / sizeof(Header) * sizeof(Header);
  void* const memory = std::aligned_alloc(alignof(Header), sizeof(Header) + rounded);
  if (memory == nullptr) throw std::bad_alloc();
  return std::construct_at(static_cast<Header*>(memory), Header{kind, rounded}) + 1;
}

void Memory::Give(void* memory) noexcept {
  if (memory == nullptr) return;
  Header* const block = static_cast<Header*>(memory) - 1;
  try {
    const std::lock_guard lock(mutex_);
    if (const size_t most = MostOf(block->kind); most > 0) {
      auto& blocks = blocks_[block->kind];
      if (blocks.size() < most) {
        blocks.push_back(block);
        return;
      }
    }
  } catch (const std::exception&) {
    // Without memory for the list, the block is freed.
  }
  std::free(block);
}

void Memory::Keep(Kept kept) {
  const std::lock_guard lock(mutex_);
  kept_ = kept;
  for (auto& [kind, blocks] : blocks_) {
    while (blocks.size() > MostOf(kind)) {
      std::free(blocks.back());
      blocks.pop_back();
    }
  }
}

Memory::Kept Memory::kept() const {
  const std::lock_guard lock(mutex_);
  return kept_;
}

}  // namespace braid::custom_nodes
