// Compensation: undo for one request of a sequence whose state is spread over several servables, such as the
// stateful nodes of a pipeline or the sessions of a graph.
//
// When the request as a whole fails, it undoes the changes that succeeded. No sequence remains that its
// client does not know about:
// - A request that starts the sequence: every part that it started is dropped. A part that refused the start,
//   because a sequence of that name existed already, stays.
// - A request that ends the sequence: when one part has ended, the other parts are dropped, because the
//   client can no longer end them. All parts that have not ended are also dropped when the client
//   disconnects, even parts that never saw the request.
// - A request in the middle is undone where the servable supports it (Servable::MarkSequence()). The sequence
//   is as before, and the client may retry. Other servables keep their new state.
//
//   auto compensation = std::make_shared<Compensation>(id, start, end);
//   const size_t part = compensation->Add(servable);    // for each servable that may be called
//   compensation->Asked(part); ... compensation->Answered(part, status);
//   compensation->Fail([] { /* tell the client */ });   // when the request has failed
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "serving/request.h"
#include "serving/servable.h"

namespace braid {

// Returns an id for a sequence that the client did not name and that several servables share. The id is
// random: a counter, as single models use, could meet an id that one of them has in use. It has 63 bits, so
// that a client can return it as a signed number. Never 0.
uint64_t RandomSequenceId();

// Returns the output `sequence_id`, UINT64 [1], which every successful response of a sequence carries.
Tensor SequenceIdOutput(uint64_t id);

// Thread-safe. Its lock is not held while servables are called.
class Compensation {
 public:
  // `start` and `end` are the flags that the request sends to each servable.
  Compensation(CorrelationId id, bool start, bool end) : id_(std::move(id)), start_(start), end_(end) {}

  // Adds a servable that keeps part of the sequence; returns the part's number. Holds no ownership: a
  // destroyed servable has no sequences.
  size_t Add(std::weak_ptr<Servable> servable);

  // Records that a request was sent to that servable, and that it was answered.
  void Asked(size_t part);
  void Answered(size_t part, const Status& status);

  // Records that the client has disconnected. Called before Fail().
  void ClientGone();
  // Fails the request as a whole and calls `then` after the undo. While servables have not answered, both
  // wait for the last answer and run on its thread. So a client that is notified of the failure can start the
  // sequence again. REQUIRES: called at most once, and Asked() is not called afterwards.
  void Fail(std::function<void()> then);

 private:
  struct Part {
    std::weak_ptr<Servable> servable;
    bool asked = false;
    std::vector<TakeBackSteps> marks;  // taken before the first request, in the middle of the sequence
    uint64_t steps = 0;                // successful requests
    bool ended = false;                // by a request that was cancelled before it ran
  };

  bool in_the_middle() const { return !start_ && !end_; }
  void TakeBack(const std::vector<Part>& parts, bool client_gone) const;

  const CorrelationId id_;
  const bool start_;
  const bool end_;

  Mutex mutex_;
  std::vector<Part> parts_ BRAID_GUARDED_BY(mutex_);
  size_t open_ BRAID_GUARDED_BY(mutex_) = 0;  // sent and not yet answered
  bool failed_ BRAID_GUARDED_BY(mutex_) = false;
  bool client_gone_ BRAID_GUARDED_BY(mutex_) = false;
  std::function<void()> then_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
