// Published: an immutable value that is replaced as a whole while many threads read it.
//
//   Published<Table> table(std::make_shared<const Table>());
//   table.Set(std::move(newer));                  // any thread
//
//   Published<Table>::Reader reader(table);       // one per thread
//   const Table& now = *reader.Get();             // takes a lock only after a change
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/mutex.h"

namespace braid {

template <class T>
class Published {
 public:
  explicit Published(std::shared_ptr<const T> value) : value_(std::move(value)) {}

  // Replaces the value. The previous value is released without the lock held.
  void Set(std::shared_ptr<const T> value) {
    MutexLock lock(mutex_);
    value_.swap(value);
    generation_.fetch_add(1, std::memory_order_release);
    lock.Unlock();
  }

  // Returns the value. Takes a lock briefly.
  std::shared_ptr<const T> Get() const {
    MutexLock lock(mutex_);
    return value_;
  }

  // A number that rises with every Set().
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }

  // The view of one thread. Two threads must not use it at once.
  class Reader {
   public:
    // `published` outlives the reader.
    explicit Reader(const Published& published) : published_(published) {}

    // Returns the current value; the reference is valid until the next call.
    const std::shared_ptr<const T>& Get() {
      const uint64_t now = published_.generation();
      if (value_ == nullptr || now != generation_) {
        value_ = published_.Get();
        generation_ = now;
      }
      return value_;
    }
    // The generation of the value that Get() last returned.
    uint64_t generation() const { return generation_; }

   private:
    const Published& published_;
    std::shared_ptr<const T> value_;
    uint64_t generation_ = 0;
  };

 private:
  mutable Mutex mutex_;
  std::shared_ptr<const T> value_ BRAID_GUARDED_BY(mutex_);  // readers share it
  std::atomic<uint64_t> generation_{0};
};

}  // namespace braid
