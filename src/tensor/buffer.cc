#include "tensor/buffer.h"

#include <cstdlib>
#include <new>

#include "base/memory_use.h"

namespace braid {
namespace {

constexpr std::align_val_t kAlignment{64};

// The owner precedes its bytes, in one allocation.
class HeapOwner final : public BufferOwner {
 public:
  static constexpr size_t kHeader = 64;
  static HeapOwner* Create(size_t size) {
    if (size > SIZE_MAX - kHeader) return nullptr;
    void* memory = ::operator new(size + kHeader, kAlignment, std::nothrow);
    return memory ? new (memory) HeapOwner(size + kHeader) : nullptr;
  }
  std::byte* data() { return reinterpret_cast<std::byte*>(this) + kHeader; }

 private:
  explicit HeapOwner(size_t size) : charge_(size) {}

  void Destroy() override {
    this->~HeapOwner();
    ::operator delete(static_cast<void*>(this), kAlignment);
  }

  const MemoryCharge charge_;
};
static_assert(sizeof(HeapOwner) <= HeapOwner::kHeader);

}  // namespace

Result<Buffer> HeapAllocator::Allocate(size_t size) {
  if (size == 0) return Buffer();
  HeapOwner* owner = HeapOwner::Create(size);
  if (owner == nullptr)
    return UnavailableError("out of memory for a buffer of " + std::to_string(size) + " bytes");
  return Buffer(owner->data(), size, owner);
}

Buffer CopyToHeap(std::span<const std::byte> bytes) {
  if (bytes.empty()) return Buffer();
  HeapOwner* owner = HeapOwner::Create(bytes.size());
  if (owner == nullptr) throw std::bad_alloc();
  std::memcpy(owner->data(), bytes.data(), bytes.size());
  return Buffer(owner->data(), bytes.size(), owner);
}

}  // namespace braid
