// RequestQueue: the waiting requests of one model. It is bounded and ordered by priority, and has the
// timeouts of the queue policy.
//
// Requests leave the highest level first, and within a level in order of arrival. Under a policy that delays
// timed-out requests, those leave after the others of their level. Two things allocate: the list of
// deadlines, for requests that have one, and a level when a request first names it. Not synchronised: the
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
  // The queue never holds more than `max_size` requests, regardless of the policies. `model_name` is for the
  // error text.
  RequestQueue(const BatchingPolicy& policy, size_t max_size, std::string model_name);
  // REQUIRES: empty.
  ~RequestQueue();
  RequestQueue(const RequestQueue&) = delete;
  RequestQueue& operator=(const RequestQueue&) = delete;

  // Adds a request and takes ownership. Its timeout starts at `now_ns`. The timeout of a call by user code
  // starts with the call and includes the way back, estimated by the way here, 50 us at most. Errors:
  // UNAVAILABLE if its level or the whole queue is full; the caller then still owns the request.
  Status Push(std::unique_ptr<InferenceRequest>& request, int64_t now_ns);
  // Returns a request to the queue: it becomes the first of its level and keeps its deadline.
  void PushFront(std::unique_ptr<InferenceRequest> request);

  // Returns the request that leaves next; null if empty.
  const InferenceRequest* front() const { return FirstFrom(0); }
  // Returns the request that leaves after `request`, which is queued; null at the end.
  const InferenceRequest* After(const InferenceRequest& request) const;
  // REQUIRES: not empty.
  std::unique_ptr<InferenceRequest> PopFront();
  // Removes a queued request from any place.
  std::unique_ptr<InferenceRequest> Remove(InferenceRequest& request);

  // Handles all requests whose deadline is not after `now_ns`: they are appended to `rejected`, or moved
  // after the others of their level.
  void Expire(int64_t now_ns, std::vector<std::unique_ptr<InferenceRequest>>& rejected);
  // Returns the earliest deadline; INT64_MAX if there is none.
  int64_t next_deadline_ns() const {
    return deadlines_.empty() ? INT64_MAX : deadlines_[0]->scheduling.deadline_ns;
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

 private:
  // Limits the idle levels: each costs time whenever a batch is made, and clients choose the levels they
  // name.
  static constexpr size_t kMostIdleLevels = 64;

  struct Level {
    const QueuePolicy* policy;  // of policy_
    RequestList waiting;
    RequestList delayed;
    int64_t size = 0;
  };

  uint32_t LevelOf(const InferenceRequest& request) const;
  // Creates the level if it does not exist.
  Level& LevelAt(uint32_t index);
  void DropIfIdle(uint32_t index);
  int64_t DeadlineOf(const InferenceRequest& request, const QueuePolicy& policy, int64_t since_ns) const;
  const InferenceRequest* FirstFrom(uint64_t level) const;
  RequestList& ListOf(const InferenceRequest& request);

  // A binary heap, the earliest deadline first. Each request knows its index, so that it can leave at any
  // time.
  void AddDeadline(InferenceRequest& request);
  void RemoveDeadline(InferenceRequest& request);
  void Place(InferenceRequest* request, size_t index);
  void SiftUp(size_t index);
  void SiftDown(size_t index);

  const size_t max_size_;
  const std::string model_name_;
  const BatchingPolicy policy_;
  // Levels that requests have named. Levels beyond kMostIdleLevels are kept only while requests wait in them.
  std::map<uint32_t, Level> levels_;
  std::vector<InferenceRequest*> deadlines_;
  size_t size_ = 0;
};

}  // namespace braid
