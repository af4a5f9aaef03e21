// Ending: a request that leaves a scheduler without having run, and why. Decided under the lock of the model,
// told without it.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/status.h"
#include "serving/request.h"

namespace braid {

enum class EndReason : unsigned char {
  kRefused,      // it was not accepted; the ending has a status of its own
  kTimeout,      // its time in the queue is over
  kIdle,         // it has waited for a slot for too long
  kDropped,      // its sequence was dropped
  kLost,         // its sequence has ended with an instance
  kCancelled,    // its client has gone
  kOutage,       // no instance has lived for too long
  kReturned,     // too many instances died before they began with it
  kRescheduled,  // user code has given it back, which this model does not allow
  kStopping,     // the model stops
};

struct Ending {
  std::unique_ptr<InferenceRequest> request;
  EndReason why = EndReason::kRefused;
  Status status = {};   // set for kRefused
  size_t instance = 0;  // the index of the one that has died, for kLost
};
using Endings = std::vector<Ending>;

}  // namespace braid
