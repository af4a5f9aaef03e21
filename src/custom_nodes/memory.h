// Memory: the memory that a node gives to the server, and gets back through release().
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <vector>

namespace braid::custom_nodes {

// Keeps some released blocks for the next request, if its node asks for that. Never blocks for long, and never
// limits the blocks in use. Thread-safe.
class Memory {
 public:
  // The number of released blocks of each kind that are kept.
  struct Kept {
    size_t outputs = 0;
    size_t infos = 0;
  };
  // Blocks of one kind have similar sizes: an array, or the dimensions or data of the tensor `index`.
  struct Kind {
    bool info = false;
    enum class Part : unsigned char { kArray, kDims, kData } part = Part::kArray;
    size_t index = 0;
    auto operator<=>(const Kind&) const = default;
  };

  explicit Memory(Kept kept) : kept_(kept) {}
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // Returns a block of at least `bytes`, aligned to 64; never null. Throws std::bad_alloc.
  void* Take(const Kind& kind, size_t bytes);
  // Takes back a block of Take(); null is allowed.
  void Give(void* block) noexcept;

  // Changes the number of blocks that are kept.
  void Keep(Kept kept);
  Kept kept() const;

 private:
  struct Header;
  size_t MostOf(const Kind& kind) const { return kind.info ? kept_.infos : kept_.outputs; }

  mutable std::mutex mutex_;
  Kept kept_;
  std::map<Kind, std::vector<Header*>> blocks_;  // released ones
};

}  // namespace braid::custom_nodes
