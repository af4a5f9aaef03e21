// InputLimit: the limit on the input bytes of clients' requests to one servable, waiting and running. One
// slow model then cannot use up the memory that all models need.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

namespace braid {

struct InputLimit {
  int64_t most = INT64_MAX;  // bytes for each servable
  // Called with each refused request's error text. Any thread.
  std::function<void(std::string_view text)> on_refusal = [](std::string_view) {};
};

// A request's share of its servable's input bytes. The servable outlives it.
class InputShare {
 public:
  InputShare() = default;
  ~InputShare() { GiveBack(); }
  InputShare(const InputShare&) = delete;
  InputShare& operator=(const InputShare&) = delete;

  // Returns false if these bytes and those of other requests exceed `most`; a request that is alone always
  // fits. REQUIRES: no share is held.
  bool Take(std::atomic<int64_t>& all, int64_t bytes, int64_t most) {
    const int64_t others = all.fetch_add(bytes, std::memory_order_relaxed);
    if (others > 0 && others + bytes > most) {
      all.fetch_sub(bytes, std::memory_order_relaxed);
      return false;
    }
    all_ = &all;
    bytes_ = bytes;
    return true;
  }
  void GiveBack() {
    if (all_ != nullptr) std::exchange(all_, nullptr)->fetch_sub(bytes_, std::memory_order_relaxed);
  }

 private:
  std::atomic<int64_t>* all_ = nullptr;  // null: no share is held
  int64_t bytes_ = 0;
};

}  // namespace braid
