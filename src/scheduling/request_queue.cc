#include "scheduling/request_queue.h"

#include <algorithm>

#include "base/check.h"
#include "serving/request_check.h"

namespace braid {

RequestQueue::RequestQueue(const BatchingPolicy& policy, size_t max_size, std::string model_name)
    : max_size_(max_size), model_name_(std::move(model_name)), policy_(policy) {
  BRAID_CHECK(policy.default_level < policy.level_count);
}

RequestQueue::~RequestQueue() { BRAID_CHECK(empty()); }

uint32_t RequestQueue::LevelOf(const InferenceRequest& request) const {
  // 1 is the highest; 0 names none, and neither does a number beyond the levels.
  return request.priority == 0 || request.priority > policy_.level_count
             ? policy_.default_level
             : static_cast<uint32_t>(request.priority - 1);
}

RequestQueue::Level& RequestQueue::LevelAt(uint32_t index) {
  const auto found = levels_.find(index);
  if (found != levels_.end()) return found->second;
  return levels_.emplace(index, Level{&policy_.PolicyOf(index), {}, {}, 0}).first->second;
}

void RequestQueue::DropIfIdle(uint32_t index) {
  if (levels_.size() <= kMostIdleLevels) return;
  const auto found = levels_.find(index);
  if (found != levels_.end() && found->second.size == 0) levels_.erase(found);
}

int64_t RequestQueue::DeadlineOf(const InferenceRequest& request, const QueuePolicy& policy,
                                 int64_t since_ns) const {
  int64_t timeout_ns = policy.default_timeout_ns;
  if (policy.allow_timeout_override && request.timeout_us > 0) {
    const uint64_t most_us = static_cast<uint64_t>(INT64_MAX) / 1000;
    const int64_t override_ns = static_cast<int64_t>(std::min(request.timeout_us, most_us)) * 1000;
    if (timeout_ns == 0 || override_ns < timeout_ns) timeout_ns = override_ns;
  }
  if (timeout_ns == 0) return INT64_MAX;
  return timeout_ns > INT64_MAX - since_ns ? INT64_MAX : since_ns + timeout_ns;
}

Status RequestQueue::Push(std::unique_ptr<InferenceRequest>& request, int64_t now_ns) {
  const uint32_t index = LevelOf(*request);
  Level& level = LevelAt(index);
  if (level.policy->max_queue_size > 0 && level.size >= level.policy->max_queue_size) {
    return UnavailableError(RequestPrefix(*request) + "Exceeds maximum queue size");
  }
  if (size_ >= max_size_) {
    DropIfIdle(index);
    return UnavailableError(
        RequestPrefix(*request) + "Exceeds maximum queue size: " + std::to_string(max_size_) +
        " requests wait for model '" + model_name_ +
        "', the server's limit for one model. Add instances, or set max_queue_size in its queue policy");
  }
  SchedulerNotes& notes = request->scheduling;
  notes.level = index;
  notes.queued = true;
  notes.delayed = false;
  // User code waits from its call until it has the answer. The way back is not known yet: it takes as long as
  // the call's way here, or as one wake-up if the call has waited for a busy reader.
  constexpr int64_t kLongestWayBackNs = 50'000;
  const int64_t way_ns =
      request->call_chain != nullptr ? std::max<int64_t>(now_ns - request->start_ns, 0) : 0;
  const int64_t since_ns = now_ns - way_ns - std::min(way_ns, kLongestWayBackNs);
  notes.deadline_ns = DeadlineOf(*request, *level.policy, since_ns);
  if (notes.deadline_ns != INT64_MAX) AddDeadline(*request);
  level.waiting.Append(std::move(request));
  ++level.size;
  ++size_;
  return OkStatus();
}

void RequestQueue::PushFront(std::unique_ptr<InferenceRequest> request) {
  SchedulerNotes& notes = request->scheduling;
  BRAID_CHECK(!notes.queued && notes.level < policy_.level_count);
  notes.queued = true;
  notes.delayed = false;
  if (notes.deadline_ns != INT64_MAX) AddDeadline(*request);
  Level& level = LevelAt(notes.level);
  level.waiting.Prepend(std::move(request));
  ++level.size;
  ++size_;
}

const InferenceRequest* RequestQueue::FirstFrom(uint64_t level) const {
  if (level >= policy_.level_count) return nullptr;
  for (auto at = levels_.lower_bound(static_cast<uint32_t>(level)); at != levels_.end(); ++at) {
    if (!at->second.waiting.empty()) return at->second.waiting.first();
    if (!at->second.delayed.empty()) return at->second.delayed.first();
  }
  return nullptr;
}

const InferenceRequest* RequestQueue::After(const InferenceRequest& request) const {
  const SchedulerNotes& notes = request.scheduling;
  if (notes.next != nullptr) return notes.next;
  const Level& level = levels_.at(notes.level);
  if (!notes.delayed && !level.delayed.empty()) return level.delayed.first();
  return FirstFrom(uint64_t{notes.level} + 1);
}

std::unique_ptr<InferenceRequest> RequestQueue::PopFront() {
  const InferenceRequest* first = front();
  BRAID_CHECK(first != nullptr);
  // The queue owns the linked requests; only readers see them as constant.
  return Remove(const_cast<InferenceRequest&>(*first));
}

std::unique_ptr<InferenceRequest> RequestQueue::Remove(InferenceRequest& request) {
  SchedulerNotes& notes = request.scheduling;
  BRAID_CHECK(notes.queued);
  if (notes.deadline_ns != INT64_MAX) RemoveDeadline(request);
  std::unique_ptr<InferenceRequest> removed = ListOf(request).Remove(request);
  notes.queued = false;
  notes.waiting_call.reset();
  --levels_.at(notes.level).size;
  --size_;
  DropIfIdle(notes.level);
  return removed;
}

void RequestQueue::Expire(int64_t now_ns, std::vector<std::unique_ptr<InferenceRequest>>& rejected) {
  while (next_deadline_ns() <= now_ns) {
    InferenceRequest& request = *deadlines_[0];
    Level& level = levels_.at(request.scheduling.level);
    if (!level.policy->delay_on_timeout) {
      rejected.push_back(Remove(request));
      continue;
    }
    RemoveDeadline(request);
    request.scheduling.deadline_ns = INT64_MAX;
    request.scheduling.delayed = true;
    level.delayed.Append(level.waiting.Remove(request));
  }
}

RequestList& RequestQueue::ListOf(const InferenceRequest& request) {
  Level& level = levels_.at(request.scheduling.level);
  return request.scheduling.delayed ? level.delayed : level.waiting;
}

void RequestQueue::AddDeadline(InferenceRequest& request) {
  deadlines_.push_back(nullptr);
  Place(&request, deadlines_.size() - 1);
  SiftUp(deadlines_.size() - 1);
}

void RequestQueue::RemoveDeadline(InferenceRequest& request) {
  const size_t index = request.scheduling.deadline_index;
  InferenceRequest* last = deadlines_.back();
  deadlines_.pop_back();
  if (last == &request) return;
  Place(last, index);
  SiftUp(index);
  SiftDown(last->scheduling.deadline_index);
}

void RequestQueue::Place(InferenceRequest* request, size_t index) {
  deadlines_[index] = request;
  request->scheduling.deadline_index = static_cast<uint32_t>(index);
}

void RequestQueue::SiftUp(size_t index) {
  InferenceRequest* moving = deadlines_[index];
  while (index > 0) {
    const size_t parent = (index - 1) / 2;
    if (deadlines_[parent]->scheduling.deadline_ns <= moving->scheduling.deadline_ns) break;
    Place(deadlines_[parent], index);
    index = parent;
  }
  Place(moving, index);
}

void RequestQueue::SiftDown(size_t index) {
  InferenceRequest* moving = deadlines_[index];
  for (;;) {
    size_t child = 2 * index + 1;
    if (child >= deadlines_.size()) break;
    if (child + 1 < deadlines_.size() &&
        deadlines_[child + 1]->scheduling.deadline_ns < deadlines_[child]->scheduling.deadline_ns) {
      ++child;
    }
    if (moving->scheduling.deadline_ns <= deadlines_[child]->scheduling.deadline_ns) break;
    Place(deadlines_[child], index);
    index = child;
  }
  Place(moving, index);
}

}  // namespace braid
