// Ending: a request that leaves a scheduler without having run, with the reason. It is decided under the
// model's lock and reported without it.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/status.h"
#include "serving/request.h"

namespace braid {

enum class EndReason : unsigned char {
  kRefused,      // not accepted; `status` says why
  kTimeout,      // its time in the queue is over
  kIdle,         // it has waited for a slot for too long
  kDropped,      // its sequence was dropped
  kLost,         // its sequence has ended with an instance
  kCancelled,    // its client has disconnected or cancelled
  kOutage,       // no instance was available for too long
  kReturned,     // too many instances died before they began with it
  kRescheduled,  // user code has returned it, which this model does not allow
  kStopping,     // the model stops
};

struct Ending {
  std::unique_ptr<InferenceRequest> request;
  EndReason why = EndReason::kRefused;
  Status status = {};   // set for kRefused
  size_t instance = 0;  // the index of the instance that died, for kLost
};
using Endings = std::vector<Ending>;

}  // namespace braid
