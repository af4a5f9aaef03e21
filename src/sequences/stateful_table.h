// StatefulTable: decides which requests of a stateful model's sequences run next. It implements the rules of
// OpenVINO Model Server as a state machine for each sequence.
//
//   (start) --> lives <--------------------+
//                 | end comes              | the end fails
//                 v                        |
//             terminated ------------------+
//                 | the end has run, or its client has cancelled before
//                 v
//               gone  <-- the start fails; idle for too long; dropped
//
// Requests of a sequence have their turns one at a time, in order of arrival. A start has its turn at once.
// Requests that wait for their turn are in the table.
//
// The table calls only the store, which has the sequences and their states. It uses no clock and no threads.
// Not synchronised: the scheduler's lock guards it, and the notes in the requests.
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
    size_t max_waiting = 65536;  // requests of all sequences
  };
  // `store` outlives the table.
  StatefulTable(const Options& options, SequenceStore& store) : options_(options), store_(store) {}
  // REQUIRES: no request waits.
  ~StatefulTable();
  StatefulTable(const StatefulTable&) = delete;
  StatefulTable& operator=(const StatefulTable&) = delete;

  using Requests = std::vector<std::unique_ptr<InferenceRequest>>;

  enum class Answer : unsigned char {
    kBegins,      // its turn begins
    kWaits,       // the table has taken it
    kTooMany,     // a start, and max_sequences exist
    kExists,      // a start of a sequence that exists
    kTerminated,  // a start of a sequence whose end has begun
    kMissing,     // another request, of a missing sequence or one whose end has begun
    kNoRoom,      // it would have to wait, and max_waiting do
  };
  // Takes in a request; the caller keeps it unless it waits. A start that names no id gets one. REQUIRES: its
  // correlation id is a number, and 0 only for a start.
  Answer Admit(std::unique_ptr<InferenceRequest>& request);

  enum class Outcome : unsigned char {
    kGood,       // the new states are in the store
    kFailed,     // the states are as before
    kCancelled,  // its client cancelled before it ran
  };
  // Ends the turn of a request, before a client can see its end. Appends requests that now belong to no
  // sequence to `refused`. Returns true if the sequence continues: the caller must call Next() once the
  // request's client has its answer.
  bool End(const InferenceRequest& request, Outcome outcome, Requests& refused);
  // Returns the request whose turn is next; null if none waits.
  std::unique_ptr<InferenceRequest> Next(uint64_t number);

  // Removes a waiting request whose client has cancelled.
  std::unique_ptr<InferenceRequest> Cancel(InferenceRequest& request);
  // Handles an end whose client cancelled before, without its request.
  void EndWithoutRequest(uint64_t id);
  // One check of the cleaner: ends the sequences that the previous check has marked and that have not run
  // well since, and marks the others. Skips sequences in use and terminated ones.
  void CleanUp();
  // Ends a sequence, if it exists; appends its waiting requests to `refused`.
  void Drop(uint64_t id, Requests& refused);
  // Returns the number of a sequence; 0 if it does not exist. With `touch` the next CleanUp() does not end
  // it.
  uint64_t Find(uint64_t id, bool touch);
  // Returns the current state of the sequence, if it exists and has run.
  std::optional<SequenceStore::Mark> Mark(uint64_t id) const;
  // Adds a sequence of the model's previous run. Returns false if its id is invalid or taken, its states do
  // not match, or there are too many.
  bool Restore(SavedSequence saved);
  // Returns whether the sequence has not run well since the last CleanUp(); false if it does not exist.
  bool IsIdle(uint64_t id) const;
  // Appends all waiting requests to `refused`, as if they had never come. Sequences stay.
  void RefuseWaiting(Requests& refused);

  size_t waiting() const { return waiting_; }

 private:
  using Reason = SequenceStore::Reason;
  struct Sequence {
    uint64_t id = 0;
    bool busy = false;            // a turn has begun, and Next() was not called
    bool terminated = false;      // its end has come
    bool ends_cancelled = false;  // and its client has cancelled
    bool idle = false;            // has not run well since the last CleanUp()
    bool dropped = false;         // only its running turn is left
    RequestList waiting;
  };

  Answer Start(std::unique_ptr<InferenceRequest>& request);
  Answer Refuse(Answer answer);
  uint64_t FreeId();
  std::unique_ptr<InferenceRequest> Remove(Sequence& sequence, InferenceRequest& request);
  // Ends the sequence; its waiting requests are refused.
  void Finish(uint64_t number, Sequence& sequence, Reason reason, Requests& refused);
  void SetTerminated(uint64_t number, Sequence& sequence, bool terminated);

  const Options options_;
  SequenceStore& store_;
  std::unordered_map<uint64_t, Sequence> sequences_;  // by number
  std::unordered_map<uint64_t, uint64_t> numbers_;    // by id, without ended ones
  uint64_t next_id_ = 1;
  size_t waiting_ = 0;
};

}  // namespace braid
