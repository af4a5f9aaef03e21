// Batch: pieces of work that a thread does one after the other without waiting in between, and what can wait
// for the last of them. Of several answers to one client only the last needs a system call then.
//
//   {
//     const Batch batch;
//     while (work is there) Do(it);  // calls Batch::Defer(connection)
//   }                                // connection->AtEnd()
//
// A batch ends before its thread sleeps, and after so many pieces of work at most.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

namespace braid {

class Batch {
 public:
  class Work {
   public:
    virtual ~Work() = default;
    // On the thread that deferred it.
    virtual void AtEnd() noexcept = 0;
  };

  // The batch of this thread, which has none. Ends with its object.
  Batch();
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  // Calls work->AtEnd() at the end of this thread's batch, once however often it is deferred. False, and no
  // call, when the thread has no batch, or one that has much to end already.
  static bool Defer(const std::shared_ptr<Work>& work) noexcept;

 private:
  std::array<std::shared_ptr<Work>, 16> works_;
  size_t count_ = 0;
};

}  // namespace braid
