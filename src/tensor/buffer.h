// Buffer: reference-counted memory of tensors.
//
// A Buffer is a view of bytes with a reference to their owner; copying it copies no bytes. The code that
// allocates a buffer may write to it until it passes on the first copy. After that the bytes are read-only,
// unless the holder has the only reference.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/status.h"

namespace braid {

// Owns the memory of buffers. Deleted with the last reference, on the thread that releases it.
class BufferOwner {
 public:
  BufferOwner() = default;
  BufferOwner(const BufferOwner&) = delete;
  BufferOwner& operator=(const BufferOwner&) = delete;

  void AddReference() { references_.fetch_add(1, std::memory_order_relaxed); }
  void DropReference() {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) Destroy();
  }
  // Whether the caller holds the only reference.
  bool unique() const { return references() == 1; }
  // Returns the number of references. If the caller holds all of them, no other thread can add one.
  uint32_t references() const { return references_.load(std::memory_order_acquire); }

 protected:
  virtual ~BufferOwner() = default;
  // Called once, when the last reference is dropped. The default deletes; pools take the object back instead.
  virtual void Destroy() { delete this; }
  // For pools that reuse the object.
  void ResetReferences() { references_.store(1, std::memory_order_relaxed); }

 private:
  std::atomic<uint32_t> references_{1};
};

class Buffer {
 public:
  // Empty: no bytes, no owner.
  Buffer() = default;
  // Takes over one reference to `owner`.
  Buffer(std::byte* data, size_t size, BufferOwner* owner) : data_(data), size_(size), owner_(owner) {}
  Buffer(const Buffer& other) : data_(other.data_), size_(other.size_), owner_(other.owner_) {
    if (owner_) owner_->AddReference();
  }
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        owner_(std::exchange(other.owner_, nullptr)) {}
  Buffer& operator=(Buffer other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(owner_, other.owner_);
    return *this;
  }
  ~Buffer() {
    if (owner_) owner_->DropReference();
  }

  const std::byte* data() const { return data_; }
  // REQUIRES: see the rule at the top of this file.
  std::byte* mutable_data() { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // GPU memory: only the size is known here, and the owner has the address. It occurs only among inputs and
  // outputs of servables that support it (ServableInfo).
  bool on_device() const { return data_ == nullptr && size_ != 0; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  BufferOwner* owner() const { return owner_; }

  // Returns a view of a part, with the same owner. REQUIRES: offset + size <= this->size().
  Buffer Slice(size_t offset, size_t size) const {
    BRAID_CHECK(offset <= size_ && size <= size_ - offset);
    if (owner_) owner_->AddReference();
    return {data_ + offset, size, owner_};
  }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  BufferOwner* owner_ = nullptr;
};

// An allocator of buffers. Every servable has an allocator from whose memory it reads inputs without a copy.
class BufferAllocator {
 public:
  virtual ~BufferAllocator() = default;
  // Returns memory aligned to 64 bytes, with undefined contents; an empty buffer for size 0. Thread-safe.
  // Errors: UNAVAILABLE if a memory budget is used up; the text names the setting.
  virtual Result<Buffer> Allocate(size_t size) = 0;
};

// Allocates from the process's heap.
class HeapAllocator final : public BufferAllocator {
 public:
  Result<Buffer> Allocate(size_t size) override;
};

// Returns a heap buffer with a copy of `bytes`.
Buffer CopyToHeap(std::span<const std::byte> bytes);

}  // namespace braid
