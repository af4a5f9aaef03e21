// How much memory the process holds for what clients have sent and are sent: requests as they are read and
// while they run, with their tensors in shared memory, and answers until they have left. One count for the
// process, as its memory is one. What it should not exceed is MemoryBudget's matter.
//
// Each thread keeps up to 64 KiB of its changes to itself, so that threads do not meet for small requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace braid {

// Any thread; what one takes, another may give back.
void AddMemoryUse(int64_t bytes) noexcept;
// In bytes; less than 0 is 0.
size_t MemoryUse() noexcept;

// Some bytes in the count, for as long as it lives; less than 0 for what is counted elsewhere and not there
// yet.
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

// Gives the memory of a text back, which assigning an empty one does not.
inline void FreeText(std::string& text) noexcept { std::string().swap(text); }

}  // namespace braid
