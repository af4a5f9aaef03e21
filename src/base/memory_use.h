// The memory that the process holds for requests and answers: requests while they are read and run, with
// their tensors in shared memory, and answers until they are sent. There is one count per process.
// MemoryBudget limits it.
//
// Each thread keeps up to 64 KiB of its changes to itself, so that small requests cause no contention.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace braid {

// Any thread. One thread may subtract bytes that another has added.
void AddMemoryUse(int64_t bytes) noexcept;
// Returns bytes; a negative count is returned as 0.
size_t MemoryUse() noexcept;

// An amount in the count, for as long as it lives. It may be negative, for bytes that are counted elsewhere
// before they arrive.
class MemoryCharge {
 public:
  MemoryCharge() = default;
  explicit MemoryCharge(size_t bytes) noexcept { Set(static_cast<int64_t>(bytes)); }
  MemoryCharge(MemoryCharge&& other) noexcept : bytes_(std::exchange(other.bytes_, 0)) {}
  MemoryCharge& operator=(MemoryCharge&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MemoryCharge() { Set(0); }

  void Set(int64_t bytes) noexcept {
    if (bytes != bytes_) AddMemoryUse(bytes - std::exchange(bytes_, bytes));
  }

 private:
  int64_t bytes_ = 0;
};

// Frees the memory of a text, which assigning an empty text does not.
inline void FreeText(std::string& text) noexcept { std::string().swap(text); }

}  // namespace braid
