// RequestFront: what stands in front of a ScheduledModel, has made the requests ready that it is given, and
// must hear of their ends.
#pragma once

#include <memory>
#include <vector>

#include "serving/request.h"

namespace braid {

class RequestFront {
 public:
  enum class Outcome : unsigned char {
    kGood,
    kFailed,
    kCancelled,  // the client has gone before the request ran
  };
  // What the end of a request sets free.
  struct Followers {
    std::unique_ptr<InferenceRequest> next;
    std::vector<std::unique_ptr<InferenceRequest>> refused;
    bool any() const { return next != nullptr || !refused.empty(); }
  };

  virtual ~RequestFront() = default;

  // A good response of the backend, before it is counted and delivered. It may be changed, into an error too.
  virtual void OnResponse(InferenceRequest& request, InferenceResponse& response) = 0;
  // The request is about to end, as nobody can see yet.
  virtual Followers OnEnd(InferenceRequest& request, Outcome outcome) = 0;
  // Called with what OnEnd() gave, if there is any, when the request has ended.
  virtual void Follow(Followers followers) = 0;
};

}  // namespace braid
