// SequenceTable: the sequences of one model, as one state machine each.
//
//   kFollows --(the one before it has ended)--> kBacklog --(a slot is free)--> kSlot --> gone
//                                                  ^                             |
//                                                  +--(nothing had begun)--- kOrphan --> gone
//                                                              (its instance has died)
//
// In a drain a sequence that has nothing to run leaves its slot to one that waits, and is kResting: it stays
// as it is, and goes to the backlog if a request comes after all.
//
// A sequence has a number, which counts up and is never used again; requests and turns name it by that, so
// that what comes late for a sequence that is gone touches no other that has its id or its slot now. A turn
// is one run of one request; a sequence has at most one at a time. It is gone when it takes no more requests
// and none of its requests is left, and its slot is free from then on.
//
// Requests with one id always run in the order in which they came: while one sequence has not ended, the next
// with its id follows it. The table holds what waits; it calls nobody but the store, which has the sequences'
// states, and knows no clock but what it is told. Not synchronised: the scheduler's lock guards it, and the
// notes in the requests.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "scheduling/batcher.h"
#include "scheduling/ending.h"
#include "sequences/sequence_store.h"
#include "serving/request.h"
#include "serving/sequences.h"

namespace braid {

struct Sequence {
  enum class Phase : unsigned char { kFollows, kBacklog, kSlot, kResting, kOrphan };

  uint64_t number = 0;
  CorrelationId id;
  Phase phase = Phase::kBacklog;
  size_t instance = 0;  // means something in kSlot and kOrphan
  size_t slot = 0;
  bool open = true;       // takes more requests
  bool busy = false;      // a turn has begun and not ended
  bool answered = false;  // the request of that turn has had its last response
  uint32_t turns = 0;     // how many have begun
  int64_t begun_ns = 0;
  std::deque<std::unique_ptr<InferenceRequest>> queue;

  // The neighbours with the same id; 0 is none.
  uint64_t predecessor = 0;
  uint64_t successor = 0;
  bool takes_over = false;  // gets the slot of its predecessor, which it has cut short

  // Since when there was neither a request nor a turn, or since when the last request waits for a slot.
  int64_t since_ns = 0;
  int64_t used_ns =
      0;  // of one that was restored, until it is idle here or has a request: since when it has been idle
  std::list<uint64_t>* watched_in = nullptr;
  std::list<uint64_t>::iterator watched_at;

  // Why it will be gone.
  SequenceStore::Reason reason = SequenceStore::Reason::kEnded;

  // The scheduler's: what the CORRID tensor of its requests is.
  Buffer id_bytes;
  // Likewise: its instance has what the server has of it.
  bool loaded = false;
};

class SequenceTable {
 public:
  struct Options {
    size_t instances = 1;
    size_t slots = 1;  // of each instance
    int64_t idle_ns = 0;
    size_t max_queued = 0;
  };
  // `store` outlives the table.
  SequenceTable(const Options& options, SequenceStore& store);
  // REQUIRES: nothing is queued.
  ~SequenceTable();
  SequenceTable(const SequenceTable&) = delete;
  SequenceTable& operator=(const SequenceTable&) = delete;

  enum class Answer : unsigned char {
    kQueued,
    kNeedsStart,  // there is no such sequence, or it has had its last request
    kLost,        // it ended with the instance that it was bound to
    kFull,
  };
  struct Admission {
    Answer answer = Answer::kQueued;
    Sequence* sequence = nullptr;  // with kQueued
    bool cut_short = false;        // a sequence that had not ended was ended for this one
    size_t instance = 0;           // with kLost
  };
  // Takes a request in, unless refused; it then stays with the caller. `last` says that the sequence takes no
  // more after this one. REQUIRES: request->correlation_id names a sequence.
  Admission Admit(std::unique_ptr<InferenceRequest>& request, bool last, int64_t now_ns);

  // Gives free slots to waiting sequences, the oldest first, on the instance that has the fewest.
  void Assign(int64_t now_ns);
  // The sequences of an instance by slot, null where there is none; the last is not null.
  const std::vector<Sequence*>& seats(size_t instance) const { return instances_[instance].seats; }
  static bool Ready(const Sequence& sequence) { return !sequence.busy && !sequence.queue.empty(); }

  // Begins a turn of a bound sequence. REQUIRES: Ready(sequence).
  std::unique_ptr<InferenceRequest> Begin(Sequence& sequence, int64_t now_ns);
  // The three ends of a turn; what does not name the present turn of its sequence is left alone.
  void End(uint64_t number, uint32_t turn, int64_t now_ns, Endings& endings);
  // The request goes on: it is the next of its sequence again. False when there is no such turn any more;
  // the request stays with the caller then.
  bool Continue(std::unique_ptr<InferenceRequest>& request, int64_t now_ns, Endings& endings);
  // The turn never began, since the instance has died. As Continue().
  bool Undo(std::unique_ptr<InferenceRequest>& request, int64_t now_ns, Endings& endings);

  // The request of a turn has had its last response, while the turn goes on.
  void Answered(uint64_t number, uint32_t turn, int64_t now_ns, Endings& endings);
  // The sequence whose turn this is; null when there is none any more.
  Sequence* Find(uint64_t number, uint32_t turn);

  // The instance whose slot the sequence of a queued request has; nothing while it has none.
  std::optional<size_t> InstanceOf(const InferenceRequest& request);
  // Ends a sequence for one of its queued requests, which is dropped with all others of it.
  void Cancel(const InferenceRequest& request, int64_t now_ns, Endings& endings);
  // Ends the sequences that have been idle for too long, and fails those that waited too long for a slot.
  void Expire(int64_t now_ns, Endings& endings);
  // When Expire() has something to do; kNeverNs when nothing is in sight.
  int64_t next_deadline_ns() const;

  // An instance has died, which ends the sequences that have begun on it; or it is back.
  void SetAvailable(size_t instance, bool available, int64_t now_ns, Endings& endings);

  // Sequences that begin get no slot of an instance: if there are others (kIfOthers), or in any case (kFully).
  enum class Vacating : unsigned char { kNo, kIfOthers, kFully };
  void SetVacating(size_t instance, Vacating vacating) { instances_[instance].vacating = vacating; }
  // The sequences that are bound to an instance and have begun there.
  size_t begun(size_t instance) const;

  // Drops whatever is queued, as no instance has lived for too long; the sequences take no more.
  void DropAll(int64_t now_ns, Endings& endings);
  // The same as the model stops, as if what is queued had never come: the sequences stay.
  void DropQueued(Endings& endings);
  // Ends the sequences with this id, if there are any, and drops what is queued of them.
  void Drop(const CorrelationId& id, int64_t now_ns, Endings& endings);
  // A sequence of an earlier life, which continues, and gets a slot as one that begins now does. Null when
  // there is one with its id, or its states do not fit.
  Sequence* Restore(SavedSequence saved, int64_t now_ns);

  // The number of the sequence with this id that takes more requests; 0 when there is none. With `touch` its idle
  // time begins anew.
  uint64_t Find(const CorrelationId& id, bool touch, int64_t now_ns);
  // The server has something else of a sequence than its instance.
  void SetStale(uint64_t number);

  // From now on a slot is a sequence's only while that has something to run: Assign() gives those of idle
  // sequences too. Nothing that is idle expires.
  void BeginDrain();
  // Whether sequences wait for slots while others keep theirs for requests that have not come.
  bool waits_for_idle() const { return !backlog_.empty() && !idle_.empty(); }

  size_t queued() const { return queued_; }
  // Requests that are queued or have a turn and no last response yet.
  size_t unanswered() const;
  size_t size() const { return sequences_.size(); }
  // The oldest ones.
  std::vector<SequenceReport> List(size_t most, int64_t now_ns) const;

 private:
  struct Instance {
    bool available = true;
    Vacating vacating = Vacating::kNo;
    std::vector<Sequence*> seats;
    std::set<size_t> gaps;  // the free places in seats
    size_t taken() const { return seats.size() - gaps.size(); }
  };

  Sequence* Get(uint64_t number);
  Sequence* Latest(const CorrelationId& id);
  Sequence& Create(uint64_t number, const CorrelationId& id, Sequence* before, int64_t now_ns);
  // It takes no more requests.
  void Close(Sequence& sequence, SequenceStore::Reason reason);
  void PushBack(Sequence& sequence, std::unique_ptr<InferenceRequest> request);
  void PushFront(Sequence& sequence, std::unique_ptr<InferenceRequest> request);
  void DropQueue(Sequence& sequence, EndReason why, Endings& endings);
  void EnterBacklog(Sequence& sequence, int64_t now_ns);
  // An idle sequence needs no slot.
  void Rest(Sequence& sequence);
  // The instance that has the fewest sequences; null when no slot is free.
  Instance* Emptiest();
  void Seat(Sequence& sequence, size_t instance, size_t slot);
  void Unseat(Sequence& sequence);
  // Ends the sequence if nothing is left of it, else watches its time.
  void Settle(Sequence& sequence, int64_t now_ns);
  void Finish(Sequence& sequence, int64_t now_ns);
  void Lose(Sequence& sequence, int64_t now_ns, Endings& endings);
  void Watch(Sequence& sequence, int64_t now_ns);
  void Unwatch(Sequence& sequence);
  void RememberLoss(const CorrelationId& id, size_t instance);
  bool any_available() const;

  const Options options_;
  SequenceStore& store_;
  size_t queued_ = 0;
  std::unordered_map<uint64_t, Sequence> sequences_;  // by number
  std::map<CorrelationId, uint64_t> latest_;          // the last sequence of an id
  std::set<uint64_t> backlog_;
  std::vector<Instance> instances_;
  int64_t outage_end_ns_ = INT64_MIN;  // time that no instance ran does not count as waiting
  bool draining_ = false;

  // Those whose time runs, in the order in which it ends.
  std::list<uint64_t> idle_;
  std::list<uint64_t> waiting_;

  // The sequences that ended with their instance, for the text that says so; as many as fit, the last ones.
  std::map<CorrelationId, size_t> lost_;
  std::deque<CorrelationId> lost_order_;
};

}  // namespace braid
