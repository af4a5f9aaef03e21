// SequenceTable: the sequences of one model, each a state machine.
//
//   kFollows --(the one before it has ended)--> kBacklog --(a slot is free)--> kSlot --> gone
//                                                  ^                             |
//                                                  +--(nothing had begun)--- kOrphan --> gone
//                                                              (its instance has died)
//
// In a drain, a sequence without requests gives its slot to a waiting one and becomes kResting. It keeps its
// state, and goes to the backlog if another request comes.
//
// A sequence has a number, which counts up and is never reused. Requests and turns refer to it, so that late
// events of a past sequence cannot affect a new one with the same id or slot. A turn is one run of one
// request; a sequence has at most one at a time. A sequence is gone once it takes no more requests and has
// none left; its slot is then free.
//
// Requests with one id always run in order of arrival: while a sequence has not ended, the next one with its
// id follows it. The table holds the waiting requests. It calls only the store, which has the sequences'
// states, and takes the time from its callers. Not synchronised: the scheduler's lock guards it, and the
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
  size_t instance = 0;  // valid in kSlot and kOrphan
  size_t slot = 0;
  bool open = true;       // takes more requests
  bool busy = false;      // a turn has begun and not ended
  bool answered = false;  // the request of that turn has had its last response
  uint32_t turns = 0;     // the number of turns that have begun
  int64_t begun_ns = 0;
  std::deque<std::unique_ptr<InferenceRequest>> queue;

  // The neighbours with the same id; 0: none.
  uint64_t predecessor = 0;
  uint64_t successor = 0;
  bool takes_over = false;  // gets the slot of its predecessor, which it has cut short

  // Since when it has had neither a request nor a turn, or since when its last request has waited for a slot.
  int64_t since_ns = 0;
  int64_t used_ns = 0;  // if restored, until it is idle here or has a request: since when it has been idle
  std::list<uint64_t>* watched_in = nullptr;
  std::list<uint64_t>::iterator watched_at;

  // Why it will end.
  SequenceStore::Reason reason = SequenceStore::Reason::kEnded;

  // The scheduler's: the bytes of the CORRID tensor.
  Buffer id_bytes;
  // The scheduler's: the instance has the same state as the server.
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
  // REQUIRES: no request is queued.
  ~SequenceTable();
  SequenceTable(const SequenceTable&) = delete;
  SequenceTable& operator=(const SequenceTable&) = delete;

  enum class Answer : unsigned char {
    kQueued,
    kNeedsStart,  // the sequence does not exist, or has had its last request
    kLost,        // it ended with the instance that it was bound to
    kFull,
  };
  struct Admission {
    Answer answer = Answer::kQueued;
    Sequence* sequence = nullptr;  // with kQueued
    bool cut_short = false;        // a sequence that had not ended was ended for this one
    size_t instance = 0;           // with kLost
  };
  // Takes in a request; if it is refused, the caller keeps it. `last`: the sequence takes no more after this
  // one. REQUIRES: request->correlation_id names a sequence.
  Admission Admit(std::unique_ptr<InferenceRequest>& request, bool last, int64_t now_ns);

  // Gives free slots to waiting sequences, the oldest first, on the instance with the fewest sequences.
  void Assign(int64_t now_ns);
  // Returns the sequences of an instance by slot, null for a free slot; the last is not null.
  const std::vector<Sequence*>& seats(size_t instance) const { return instances_[instance].seats; }
  static bool Ready(const Sequence& sequence) { return !sequence.busy && !sequence.queue.empty(); }

  // Begins a turn of a sequence with a slot. REQUIRES: Ready(sequence).
  std::unique_ptr<InferenceRequest> Begin(Sequence& sequence, int64_t now_ns);
  // End(), Continue() and Undo() end a turn. They have no effect on a turn that is not the current one of its
  // sequence.
  void End(uint64_t number, uint32_t turn, int64_t now_ns, Endings& endings);
  // The request is rescheduled: it becomes the next of its sequence. Returns false if the turn no longer
  // exists; the caller then keeps the request.
  bool Continue(std::unique_ptr<InferenceRequest>& request, int64_t now_ns, Endings& endings);
  // The turn never began, because the instance died. Otherwise like Continue().
  bool Undo(std::unique_ptr<InferenceRequest>& request, int64_t now_ns, Endings& endings);

  // The request of a turn has had its last response, while the turn continues.
  void Answered(uint64_t number, uint32_t turn, int64_t now_ns, Endings& endings);
  // Returns the sequence with this turn; null if it no longer exists.
  Sequence* Find(uint64_t number, uint32_t turn);

  // Returns the instance where the sequence of a queued request has a slot; nothing if it has none.
  std::optional<size_t> InstanceOf(const InferenceRequest& request);
  // Ends the sequence of a queued request that was cancelled, and drops all its queued requests.
  void Cancel(const InferenceRequest& request, int64_t now_ns, Endings& endings);
  // Ends sequences that have been idle for too long, and fails those that have waited too long for a slot.
  void Expire(int64_t now_ns, Endings& endings);
  // Returns when Expire() must be called; kNeverNs if there is no deadline.
  int64_t next_deadline_ns() const;

  // An instance has died, which ends the sequences that have begun on it; or it is available again.
  void SetAvailable(size_t instance, bool available, int64_t now_ns, Endings& endings);

  // Whether new sequences get slots of an instance: not if other instances exist (kIfOthers), or not at all
  // (kFully).
  enum class Vacating : unsigned char { kNo, kIfOthers, kFully };
  void SetVacating(size_t instance, Vacating vacating) { instances_[instance].vacating = vacating; }
  // Returns the number of sequences with a slot of the instance that have begun there.
  size_t begun(size_t instance) const;

  // Drops all queued requests, after an outage of all instances; the sequences take no more.
  void DropAll(int64_t now_ns, Endings& endings);
  // Drops all queued requests when the model stops, as if they had never come: the sequences stay.
  void DropQueued(Endings& endings);
  // Ends the sequences with this id, if there are any, and drops their queued requests.
  void Drop(const CorrelationId& id, int64_t now_ns, Endings& endings);
  // Adds a sequence of the model's previous run, which gets a slot like a new one. Returns null if one with
  // its id exists, or its states do not match.
  Sequence* Restore(SavedSequence saved, int64_t now_ns);

  // Returns the number of the sequence with this id that takes more requests; 0 if there is none. With
  // `touch` its idle time restarts.
  uint64_t Find(const CorrelationId& id, bool touch, int64_t now_ns);
  // The server's state of a sequence differs from its instance's.
  void SetStale(uint64_t number);

  // From now on a sequence has a slot only while it has requests: Assign() also gives away slots of idle
  // sequences. Idle sequences do not expire.
  void BeginDrain();
  // Returns whether sequences wait for slots while idle sequences keep theirs.
  bool waits_for_idle() const { return !backlog_.empty() && !idle_.empty(); }

  size_t queued() const { return queued_; }
  // The number of requests that are queued, or have a turn and no last response yet.
  size_t unanswered() const;
  size_t size() const { return sequences_.size(); }
  // Returns the oldest sequences.
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
  // An idle sequence gives up its slot.
  void Rest(Sequence& sequence);
  // Returns the instance with the fewest sequences; null if no slot is free.
  Instance* Emptiest();
  void Seat(Sequence& sequence, size_t instance, size_t slot);
  void Unseat(Sequence& sequence);
  // Ends the sequence if it has no requests left; otherwise tracks its time.
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
  int64_t outage_end_ns_ = INT64_MIN;  // time without any available instance does not count as waiting
  bool draining_ = false;

  // Sequences with a deadline, in order of their deadlines.
  std::list<uint64_t> idle_;
  std::list<uint64_t> waiting_;

  // The last sequences that ended with their instance, for an error text; their number is limited.
  std::map<CorrelationId, size_t> lost_;
  std::deque<CorrelationId> lost_order_;
};

}  // namespace braid
