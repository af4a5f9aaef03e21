// RequestFront: what stands in front of a ScheduledModel, has made the requests ready that it is given, and
// must hear of their ends.
#pragma once

#include <cstdint>
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
  // What is left to do when a request has ended and its client has heard of it.
  struct Followers {
    // Null: nothing. Shared, as the request that ends may be the last that kept the front.
    std::shared_ptr<RequestFront> front;
    uint64_t sequence = 0;
    std::vector<std::unique_ptr<InferenceRequest>> refused;
  };

  virtual ~RequestFront() = default;

  // A good response of the backend, before it is counted and delivered. It may be changed, into an error too.
  virtual void OnResponse(InferenceRequest& request, InferenceResponse& response) = 0;
  // The request is about to end, as nobody can see yet.
  virtual Followers OnEnd(InferenceRequest& request, Outcome outcome) = 0;
  // Called with what OnEnd() gave, unless that is nothing.
  virtual void Follow(Followers followers) = 0;
};

}  // namespace braid
