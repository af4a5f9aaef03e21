// StatefulTable: who may run next of the sequences of a stateful model: the rules of OpenVINO Model Server as
// a state machine for each sequence.
//
//   (start) --> lives <--------------------+
//                 | end comes              | the end fails
//                 v                        |
//             terminated ------------------+
//                 | the end has run, or its client has gone before
//                 v
//               gone  <-- the start fails; idle for too long; dropped
//
// Requests of a sequence have their turns in the order in which they came, one at a time. A start always has
// its turn at once. What waits behind others waits in here.
//
// The table calls nobody but the store, where the sequences and their states are; it knows no clock and no
// threads. Not synchronised: the scheduler's lock guards it, and the notes in the requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "scheduling/request_list.h"
#include "sequences/sequence_store.h"
#include "serving/request.h"

namespace braid {

class StatefulTable {
 public:
  struct Options {
    size_t max_sequences = 500;
    size_t max_waiting = 65536;  // requests, of all sequences together
  };
  // `store` outlives the table.
  StatefulTable(const Options& options, SequenceStore& store) : options_(options), store_(store) {}
  // REQUIRES: nothing waits.
  ~StatefulTable();
  StatefulTable(const StatefulTable&) = delete;
  StatefulTable& operator=(const StatefulTable&) = delete;

  using Requests = std::vector<std::unique_ptr<InferenceRequest>>;

  enum class Answer : unsigned char {
    kBegins,      // it is its turn
    kWaits,       // the table has it
    kTooMany,     // a start, and there are as many sequences as there may be
    kExists,      // a start of a sequence that lives
    kTerminated,  // a start of a sequence whose end has begun
    kMissing,     // anything else of a sequence that is not there, or whose end has begun
    kNoRoom,      // it would have to wait, as too many do
  };
  // Takes a request in; it stays with the caller unless it waits. A start that names none gets an id.
  // REQUIRES: its correlation id is a number, and 0 only for a start.
  Answer Admit(std::unique_ptr<InferenceRequest>& request);

  enum class Outcome : unsigned char {
    kGood,       // the new states are in the store
    kFailed,     // the states are as before
    kCancelled,  // its client has gone before it ran
  };
  // The turn of a request is over, as nobody can see yet. Appends those to `refused` that now belong to no
  // sequence. True when the sequence goes on: Next() is to be called when the request's client has its
  // answer.
  bool End(const InferenceRequest& request, Outcome outcome, Requests& refused);
  // The request whose turn is next; null when none waits.
  std::unique_ptr<InferenceRequest> Next(uint64_t number);

  // The client of a waiting request has gone.
  std::unique_ptr<InferenceRequest> Cancel(InferenceRequest& request);
  // An end has come whose client has gone before, and without it.
  void EndWithoutRequest(uint64_t id);
  // One look of the cleaner: ends the sequences that the look before has marked and that have not run well
  // since, and marks the others. Those in use and those that are terminated are left alone.
  void CleanUp();
  // Ends a sequence, if there is one; appends what waits of it to `refused`.
  void Drop(uint64_t id, Requests& refused);
  // The number of a sequence; 0 when there is none. With `touch` the cleaner's next look lets it live.
  uint64_t Find(uint64_t id, bool touch);
  // What the sequence is now, if there is one that has run.
  std::optional<SequenceStore::Mark> Mark(uint64_t id) const;
  // A sequence of an earlier life. False when its id is none or is taken, its states do not fit, or there are
  // too many.
  bool Restore(SavedSequence saved);
  // Whether the sequence has not run well since the last CleanUp(); false for one that is not there.
  bool IsIdle(uint64_t id) const;
  // Gives all that waits back as if it had never come, to `refused`. Sequences stay.
  void RefuseWaiting(Requests& refused);

  size_t waiting() const { return waiting_; }

 private:
  using Reason = SequenceStore::Reason;
  struct Sequence {
    uint64_t id = 0;
    bool busy = false;            // a turn has begun, and Next() has not come
    bool terminated = false;      // its end has come
    bool ends_cancelled = false;  // and its client has gone
    bool idle = false;            // has not run well since the last look of the cleaner
    bool dropped = false;         // is gone but for the turn that runs
    RequestList waiting;
  };

  Answer Start(std::unique_ptr<InferenceRequest>& request);
  Answer Refuse(Answer answer);
  uint64_t FreeId();
  std::unique_ptr<InferenceRequest> Remove(Sequence& sequence, InferenceRequest& request);
  // The sequence is gone; what waits of it is refused.
  void Finish(uint64_t number, Sequence& sequence, Reason reason, Requests& refused);
  void SetTerminated(uint64_t number, Sequence& sequence, bool terminated);

  const Options options_;
  SequenceStore& store_;
  std::unordered_map<uint64_t, Sequence> sequences_;  // by number
  std::unordered_map<uint64_t, uint64_t> numbers_;    // by id, those that are not gone
  uint64_t next_id_ = 1;
  size_t waiting_ = 0;
};

}  // namespace braid
