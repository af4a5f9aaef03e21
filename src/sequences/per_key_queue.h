// PerKeyQueue: runs the requests of each sequence one at a time, in order of arrival, where they could
// overtake each other. They could while images are decoded, or on their way through the nodes of a pipeline.
//
//   Enter() --> away --Ready()--> runnable, if it is the first of its sequence --> Leave()
//                          \----> waits until those before it have left ----------^
//
// A request takes an entry when it arrives. It is *away* until it is ready. A ready request that is the first
// of its sequence is runnable: the call returns it, and the caller runs it. Requests after it wait until it
// has left. An end whose client has cancelled may keep its entry without its request. When that entry becomes
// runnable, the caller ends the sequence.
//
// Each call makes at most one entry runnable, so that a caller can handle them in a loop. Not synchronised:
// the owner's lock guards it, and the notes in waiting requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "serving/request.h"

namespace braid {

// Returns whether the request ends a sequence that another one has begun. It then ends the sequence even if
// its client cancels.
inline bool EndsSequence(const InferenceRequest& request) {
  return request.sequence_end && !request.sequence_start;
}

// The entry of one request, owned by the queue. Owners derive from it to add data.
class PerKeyEntry {
 public:
  virtual ~PerKeyEntry() = default;
  uint64_t id() const { return id_; }

 private:
  friend class PerKeyQueue;
  uint64_t id_ = 0;
  std::list<std::unique_ptr<PerKeyEntry>>::iterator self_;
  bool ready_ = false;
  std::unique_ptr<InferenceRequest> request_;  // set while it waits
};

class PerKeyQueue {
 public:
  PerKeyQueue() = default;
  // REQUIRES: empty.
  ~PerKeyQueue();
  PerKeyQueue(const PerKeyQueue&) = delete;
  PerKeyQueue& operator=(const PerKeyQueue&) = delete;

  // A runnable entry. It stays until Leave().
  struct Runnable {
    PerKeyEntry* entry = nullptr;               // null: no entry is runnable
    std::unique_ptr<InferenceRequest> request;  // null: an end whose client has cancelled
  };

  // Returns whether there are no entries.
  bool empty() const { return queues_.empty(); }
  // Returns the last entry of a sequence; null if there is none.
  PerKeyEntry* Last(uint64_t id) const;
  // The number of entries after the first of their sequence, and the number of requests that wait in the
  // queue.
  size_t behind() const { return size_ - queues_.size(); }
  size_t waiting() const { return waiting_; }

  // Adds an entry for a request of the sequence; the request is away.
  PerKeyEntry& Enter(uint64_t id, std::unique_ptr<PerKeyEntry> entry = std::make_unique<PerKeyEntry>());
  // Marks a request as ready: it is returned as runnable, or waits. REQUIRES: it was away.
  Runnable Ready(PerKeyEntry& entry, std::unique_ptr<InferenceRequest> request);
  // Marks an end whose client has cancelled as ready, without its request. REQUIRES: it was away; see
  // Withdraw().
  Runnable Abandon(PerKeyEntry& entry);
  // Removes an entry, whose request has run, will not run, or was withdrawn.
  Runnable Leave(PerKeyEntry& entry);

  // Takes a waiting request out of its entry, which is away from now on.
  std::unique_ptr<InferenceRequest> Withdraw(PerKeyEntry& entry);
  // Returns the entries whose requests wait.
  std::vector<PerKeyEntry*> Waiting() const;

 private:
  using Entries = std::list<std::unique_ptr<PerKeyEntry>>;

  bool IsFirst(const PerKeyEntry& entry) const;
  // Returns the first entry if it is ready.
  Runnable Next(const Entries& entries);

  std::unordered_map<uint64_t, Entries> queues_;  // by sequence; none is empty
  size_t size_ = 0;
  size_t waiting_ = 0;
};

}  // namespace braid
