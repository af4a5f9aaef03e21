// InputLimit: how many bytes of inputs clients' requests to one servable may have while they wait and run, so
// that one slow model does not use up the memory for the requests of all.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

namespace braid {

struct InputLimit {
  int64_t most = INT64_MAX;  // of each servable
  // Is told of each request that is refused. Any thread.
  std::function<void(std::string_view text)> on_refusal = [](std::string_view) {};
};

// A request's part in the bytes of its servable, which outlives it.
class InputShare {
 public:
  InputShare() = default;
  ~InputShare() { GiveBack(); }
  InputShare(const InputShare&) = delete;
  InputShare& operator=(const InputShare&) = delete;

  // False when others have so much that these do not fit below `most`; a request that is alone always fits.
  // REQUIRES: it has no part yet.
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
  std::atomic<int64_t>* all_ = nullptr;  // null: none
  int64_t bytes_ = 0;
};

}  // namespace braid
