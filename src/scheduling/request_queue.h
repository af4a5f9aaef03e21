// The requests of one model that wait: bounded, by priority, with the time-outs of the queue policy.
//
// Requests leave the highest level first, within a level in the order of their arrival, and those whose time
// is over under a policy that delays them after the others of their level. Two things allocate: the list of
// deadlines, for requests that have one, and a level that a request is the first to name. Not synchronised: the
// scheduler's lock guards it, and the notes in the requests.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "scheduling/batching_policy.h"
#include "scheduling/request_list.h"
#include "serving/request.h"

namespace braid {

class RequestQueue {
 public:
  // Never more than `max_size` requests, whatever the policies say; `model_name` stands in the text that says
  // so.
  RequestQueue(const BatchingPolicy& policy, size_t max_size, std::string model_name);
  // REQUIRES: empty.
  ~RequestQueue();
  RequestQueue(const RequestQueue&) = delete;
  RequestQueue& operator=(const RequestQueue&) = delete;

  // Takes a request in, and the share of the caller with it. `now_ns` starts its time-out; that of
  // a call by user code has begun with the call, and includes the way back: as long as the way here, 50 us at
  // most.
  // Errors: UNAVAILABLE when its level or the whole queue is full; the request stays with the caller then.
  Status Push(std::unique_ptr<InferenceRequest>& request, int64_t now_ns);
  // Gives a request back that was in the queue before: it becomes the first of its level, with the deadline
  // it had.
  void PushFront(std::unique_ptr<InferenceRequest> request);

  // The request that leaves next; null when empty.
  const InferenceRequest* front() const { return FirstFrom(0); }
  // The request that leaves after `request`, which is queued; null at the end.
  const InferenceRequest* After(const InferenceRequest& request) const;
  // REQUIRES: not empty.
  std::unique_ptr<InferenceRequest> PopFront();
  // Takes a queued request out of the middle.
  std::unique_ptr<InferenceRequest> Remove(InferenceRequest& request);

  // Deals with all whose deadline is not after `now_ns`: they are appended to `rejected` or placed behind the
  // others.
  void Expire(int64_t now_ns, std::vector<std::unique_ptr<InferenceRequest>>& rejected);
  // The earliest deadline; INT64_MAX when there is none.
  int64_t next_deadline_ns() const {
    return deadlines_.empty() ? INT64_MAX : deadlines_[0]->scheduling.deadline_ns;
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

 private:
  // Each costs a look whenever a batch is made, and clients choose which they name.
  static constexpr size_t kMostIdleLevels = 64;

  struct Level {
    const QueuePolicy* policy;  // of policy_
    RequestList waiting;
    RequestList delayed;
    int64_t size = 0;
  };

  uint32_t LevelOf(const InferenceRequest& request) const;
  // Made when a request first names it.
  Level& LevelAt(uint32_t index);
  void DropIfIdle(uint32_t index);
  int64_t DeadlineOf(const InferenceRequest& request, const QueuePolicy& policy, int64_t since_ns) const;
  const InferenceRequest* FirstFrom(uint64_t level) const;
  RequestList& ListOf(const InferenceRequest& request);

  // A binary heap, the earliest deadline first. Each request knows its place in it, so that it can leave at
  // any time.
  void AddDeadline(InferenceRequest& request);
  void RemoveDeadline(InferenceRequest& request);
  void Place(InferenceRequest* request, size_t index);
  void SiftUp(size_t index);
  void SiftDown(size_t index);

  const size_t max_size_;
  const std::string model_name_;
  const BatchingPolicy policy_;
  // Levels that requests have named; those beyond kMostIdleLevels are kept while requests wait in them.
  std::map<uint32_t, Level> levels_;
  std::vector<InferenceRequest*> deadlines_;
  size_t size_ = 0;
};

}  // namespace braid
