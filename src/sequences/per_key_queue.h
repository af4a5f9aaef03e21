// PerKeyQueue: runs the requests of each sequence one at a time, in the order in which they have come, where
// they could overtake each other otherwise: while images are decoded for some of them, or while they are on
// their way through the nodes of a pipeline.
//
//   Enter() --> away --Ready()--> runnable, if it is the first of its sequence --> Leave()
//                          \----> waits until those before it have left ----------^
//
// A request takes an entry when it comes, and is somewhere else until it is ready. When it is ready and the
// first of its sequence, it is runnable: the call returns it, and the caller goes on with it. Those behind it
// wait until it has left. An end whose client has gone may keep its entry without its request: when that
// becomes runnable, the sequence is to be ended.
//
// Each call makes one entry runnable at most, so that a caller can work them off in a loop. Not synchronised:
// the owner's lock guards it, and the notes in the requests that wait.
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

// The entry of one request, owned by the queue. Owners that need to know more of it derive from it.
class PerKeyEntry {
 public:
  virtual ~PerKeyEntry() = default;
  uint64_t id() const { return id_; }

 private:
  friend class PerKeyQueue;
  uint64_t id_ = 0;
  std::list<std::unique_ptr<PerKeyEntry>>::iterator self_;
  bool ready_ = false;
  std::unique_ptr<InferenceRequest> request_;  // that waits
};

class PerKeyQueue {
 public:
  PerKeyQueue() = default;
  // REQUIRES: empty.
  ~PerKeyQueue();
  PerKeyQueue(const PerKeyQueue&) = delete;
  PerKeyQueue& operator=(const PerKeyQueue&) = delete;

  // Its entry stays until Leave().
  struct Runnable {
    PerKeyEntry* entry = nullptr;               // null: none is runnable
    std::unique_ptr<InferenceRequest> request;  // null: an end whose client has gone
  };

  // There is no entry.
  bool empty() const { return queues_.empty(); }
  // The last entry of a sequence; null when there is none.
  PerKeyEntry* Last(uint64_t id) const;
  // How many entries are behind others, and how many requests wait in here.
  size_t behind() const { return size_ - queues_.size(); }
  size_t waiting() const { return waiting_; }

  // A request of the sequence has come; it is away.
  PerKeyEntry& Enter(uint64_t id, std::unique_ptr<PerKeyEntry> entry = std::make_unique<PerKeyEntry>());
  // It is ready: it is runnable, or it waits. REQUIRES: it was away.
  Runnable Ready(PerKeyEntry& entry, std::unique_ptr<InferenceRequest> request);
  // The client of an end that was away or waits has gone, and the request with it; see Withdraw().
  Runnable Abandon(PerKeyEntry& entry);
  // The entry is given up, by a request that has run, will not run, or was withdrawn.
  Runnable Leave(PerKeyEntry& entry);

  // A request that waits is away from now on.
  std::unique_ptr<InferenceRequest> Withdraw(PerKeyEntry& entry);
  // Those of the requests that wait.
  std::vector<PerKeyEntry*> Waiting() const;

 private:
  using Entries = std::list<std::unique_ptr<PerKeyEntry>>;

  bool IsFirst(const PerKeyEntry& entry) const;
  // The first of these, if it is ready.
  Runnable Next(const Entries& entries);

  std::unordered_map<uint64_t, Entries> queues_;  // by sequence, none is empty
  size_t size_ = 0;
  size_t waiting_ = 0;
};

}  // namespace braid
