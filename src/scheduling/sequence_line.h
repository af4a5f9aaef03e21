// SequenceLine: the order in which the requests of sequences have come, for where they could overtake each
// other otherwise: while some of them have their images decoded, or on their way through the nodes of a
// pipeline.
//
//   Enter() --> away --Ready()--> its turn, when it is the first of its sequence --> Leave()
//                          \----> waits in the line until those before it have left --^
//
// A request takes a place when it comes and is somewhere else until it is ready. When it is ready and the
// first of its sequence, it has its turn: whoever called gets it back, and goes on with it. Those behind it
// wait until it has left. An end whose client has gone may keep its place without its request: its turn then
// is that the sequence is to be ended.
//
// Each call gives one turn at most, so that who works them off does so in a loop. Not synchronised: the
// owner's lock guards it, and the notes in the requests that wait.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "serving/request.h"

namespace braid {

// Whether the request ends a sequence that another one has begun: that holds though its client has gone.
inline bool EndsSequence(const InferenceRequest& request) {
  return request.sequence_end && !request.sequence_start;
}

// The place of one request, owned by the line. Who needs to know more of it derives from it.
class SequencePlace {
 public:
  virtual ~SequencePlace() = default;
  uint64_t id() const { return id_; }

 private:
  friend class SequenceLine;
  uint64_t id_ = 0;
  std::list<std::unique_ptr<SequencePlace>>::iterator self_;
  bool ready_ = false;
  std::unique_ptr<InferenceRequest> request_;  // that waits
};

class SequenceLine {
 public:
  SequenceLine() = default;
  // REQUIRES: empty.
  ~SequenceLine();
  SequenceLine(const SequenceLine&) = delete;
  SequenceLine& operator=(const SequenceLine&) = delete;

  // Whose turn has come. Its place stays until Leave().
  struct Turn {
    SequencePlace* place = nullptr;             // null: nobody's
    std::unique_ptr<InferenceRequest> request;  // null: an end whose client has gone
  };

  // Nobody has a place.
  bool empty() const { return lines_.empty(); }
  // The last place of a sequence; null when there is none.
  SequencePlace* Last(uint64_t id) const;
  // How many places are behind others, and how many requests wait in here.
  size_t behind() const { return places_ - lines_.size(); }
  size_t waiting() const { return waiting_; }

  // A request of the sequence has come; it is away.
  SequencePlace& Enter(uint64_t id, std::unique_ptr<SequencePlace> place = std::make_unique<SequencePlace>());
  // It is ready: its turn begins, or it waits. REQUIRES: it was away.
  Turn Ready(SequencePlace& place, std::unique_ptr<InferenceRequest> request);
  // The client of an end that was away or waits has gone, and the request with it; see Withdraw().
  Turn Abandon(SequencePlace& place);
  // The place is given up, by a request that has had its turn, will not have it, or was withdrawn.
  Turn Leave(SequencePlace& place);

  // A request that waits is away from now on.
  std::unique_ptr<InferenceRequest> Withdraw(SequencePlace& place);
  // Those of the requests that wait.
  std::vector<SequencePlace*> Waiting() const;

 private:
  using Places = std::list<std::unique_ptr<SequencePlace>>;

  bool IsFirst(const SequencePlace& place) const;
  // The turn of the first of these, if it is ready.
  Turn Next(const Places& places);

  std::unordered_map<uint64_t, Places> lines_;  // by sequence, none is empty
  size_t places_ = 0;
  size_t waiting_ = 0;
};

}  // namespace braid
