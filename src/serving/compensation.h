// Compensation: what one request does to a sequence that several servables have, each its own part: the
// stateful nodes of a pipeline, the sessions of a graph.
//
// It takes back what the request has done there when the request as a whole fails, so that no sequence stays
// that its client knows nothing of:
//  - Where this request has begun the sequence, the sequence is dropped. Where it could not, because there
//    was one of that name already, that one stays.
//  - When one part has been ended, the others are dropped: what is left could not be ended any more. So are
//    all when the client of an end has gone, which ends the sequence even where it was not asked to.
//  - A request in the middle of the sequence is taken back where that can be done (Servable::MarkSequence()):
//    the sequence is what it was before, and the client may send the request again. Elsewhere it stays.
//
//   auto compensation = std::make_shared<Compensation>(id, start, end);
//   const size_t part = compensation->Add(servable);    // for each servable that may be asked
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

// An id for a sequence that the client has left the server to name, where several servables have to know it
// by the same one. Counting, as a single model does, would meet ids that one of them has in use, so it is
// random; and of 63 bits, so that a client can give it back in a signed number. Never 0.
uint64_t RandomSequenceId();

// The output `sequence_id`, UINT64 [1], that every good response of a sequence's carries.
Tensor SequenceIdOutput(uint64_t id);

// Any thread. Servables are called without its lock.
class Compensation {
 public:
  // `start` and `end` are what the request says to each of them.
  Compensation(CorrelationId id, bool start, bool end) : id_(std::move(id)), start_(start), end_(end) {}

  // One more servable that has the sequence. It is not kept alive: one that is gone has no sequences.
  size_t Add(std::weak_ptr<Servable> servable);

  // A request for the whole has gone to that servable, and has been answered.
  void Asked(size_t part);
  void Answered(size_t part, const Status& status);

  // The whole fails since its client has gone. Called before Fail().
  void ClientGone();
  // The whole has failed. `then` is called once everything is taken back: now, or, while servables have not
  // answered, on the thread that brings the last answer; so a client that hears of the failure can begin the
  // sequence anew. Called once at most; nothing is asked afterwards.
  void Fail(std::function<void()> then);

 private:
  struct Part {
    std::weak_ptr<Servable> servable;
    bool asked = false;
    std::vector<TakeBackSteps> marks;  // made before the first request, in the middle of the sequence
    uint64_t steps = 0;                // requests that it has answered well
    bool ended = false;                // by a request that was cancelled before it ran
  };

  bool in_the_middle() const { return !start_ && !end_; }
  void TakeBack(const std::vector<Part>& parts, bool client_gone) const;

  const CorrelationId id_;
  const bool start_;
  const bool end_;

  Mutex mutex_;
  std::vector<Part> parts_ BRAID_GUARDED_BY(mutex_);
  size_t open_ BRAID_GUARDED_BY(mutex_) = 0;  // asked and not answered
  bool failed_ BRAID_GUARDED_BY(mutex_) = false;
  bool client_gone_ BRAID_GUARDED_BY(mutex_) = false;
  std::function<void()> then_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
