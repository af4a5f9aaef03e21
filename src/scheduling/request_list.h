// RequestList: an intrusive list of waiting requests, linked through their notes. Requests join and leave at
// any place without an allocation. Not synchronised: the scheduler's lock guards it, and the notes in the
// requests.
#pragma once

#include <memory>
#include <utility>

#include "serving/request.h"

namespace braid {

class RequestList {
 public:
  RequestList() = default;
  RequestList(RequestList&& other) noexcept
      : first_(std::exchange(other.first_, nullptr)), last_(std::exchange(other.last_, nullptr)) {}
  RequestList& operator=(RequestList&&) = delete;
  // REQUIRES: empty.
  ~RequestList() = default;

  bool empty() const { return first_ == nullptr; }
  // Returns null if empty. The next request is scheduling.next of its notes.
  InferenceRequest* first() const { return first_; }

  void Append(std::unique_ptr<InferenceRequest> request) {
    InferenceRequest& added = *request.release();
    added.scheduling.previous = last_;
    added.scheduling.next = nullptr;
    (last_ != nullptr ? last_->scheduling.next : first_) = &added;
    last_ = &added;
  }
  void Prepend(std::unique_ptr<InferenceRequest> request) {
    InferenceRequest& added = *request.release();
    added.scheduling.previous = nullptr;
    added.scheduling.next = first_;
    (first_ != nullptr ? first_->scheduling.previous : last_) = &added;
    first_ = &added;
  }
  // REQUIRES: the request is in this list.
  std::unique_ptr<InferenceRequest> Remove(InferenceRequest& request) {
    SchedulerNotes& notes = request.scheduling;
    (notes.previous != nullptr ? notes.previous->scheduling.next : first_) = notes.next;
    (notes.next != nullptr ? notes.next->scheduling.previous : last_) = notes.previous;
    notes.previous = nullptr;
    notes.next = nullptr;
    return std::unique_ptr<InferenceRequest>(&request);
  }

 private:
  InferenceRequest* first_ = nullptr;
  InferenceRequest* last_ = nullptr;
};

}  // namespace braid
