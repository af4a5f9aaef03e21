// Batch: pieces of work that a thread does in a row without waiting, with actions deferred to the end of the
// row. Of several answers to one client, only the last then needs a system call.
//
//   {
//     const Batch batch;
//     while (work is there) Do(it);  // calls Batch::Defer(connection)
//   }                                // connection->AtEnd()
//
// A batch ends before its thread sleeps, and after a bounded number of pieces.
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
    // Called on the thread that deferred the work, in the order of the first calls of Defer().
    virtual void AtEnd() noexcept = 0;
  };

  // Begins the calling thread's batch; the destructor ends it. REQUIRES: the thread has no batch.
  Batch();
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  // Calls work->AtEnd() at the end of this thread's batch, once however often it is deferred. Returns false,
  // and never calls it, if the thread has no batch or the batch has no free place.
  static bool Defer(const std::shared_ptr<Work>& work) noexcept;

 private:
  std::array<std::shared_ptr<Work>, 16> works_;
  size_t count_ = 0;
};

}  // namespace braid
