#include "backends/openvino/tensor_memory.h"

#include <memory>
#include <new>
#include <unordered_map>
#include <utility>

#include "base/mutex.h"

namespace braid {
namespace {

// The alignment that BufferAllocator guarantees.
constexpr size_t kAlignment = 64;

// OpenVINO copies allocators, so the copies share their allocations.
class TensorMemory {
 public:
  explicit TensorMemory(BufferAllocator& memory) : memory_(memory) {}

  void* allocate(size_t bytes, size_t alignment) {
    Result<Buffer> buffer = memory_.Allocate(bytes == 0 ? 1 : bytes);
    if (!buffer.ok() || alignment > kAlignment) throw std::bad_alloc();
    void* const data = buffer->mutable_data();
    MutexLock lock(given_->mutex);
    given_->buffers.emplace(data, *std::move(buffer));
    return data;
  }
  void deallocate(void* data, size_t, size_t) noexcept {
    Buffer freed;  // freed after the lock is released
    MutexLock lock(given_->mutex);
    const auto found = given_->buffers.find(data);
    if (found == given_->buffers.end()) return;
    freed = std::move(found->second);
    given_->buffers.erase(found);
  }
  bool is_equal(const TensorMemory& other) const { return given_ == other.given_; }

 private:
  struct Given {
    Mutex mutex;
    std::unordered_map<void*, Buffer> buffers BRAID_GUARDED_BY(mutex);
  };
  BufferAllocator& memory_;
  const std::shared_ptr<Given> given_ = std::make_shared<Given>();  // shared by the copies of this
};

}  // namespace

ov::Tensor MakeTensorIn(BufferAllocator* memory, const ov::element::Type& element, const ov::Shape& shape) {
  if (memory == nullptr) return {element, shape};
  return {element, shape, ov::Allocator(TensorMemory(*memory))};
}

}  // namespace braid
