#include "ipc/segment_budget.h"

namespace braid {
namespace {

Status TooMuch(const std::string& what, const std::string& option) {
  return ResourceExhaustedError("it sent more than " + what + " of shared memory" +
                                (option.empty() ? "" : " (" + option + ")"));
}

}  // namespace

Status SegmentBudget::Take(uint64_t bytes) {
  MutexLock lock(mutex_);
  if (segments_ >= limits_.segments)
    return TooMuch(std::to_string(limits_.segments) + " segments", limits_.segments_option);
  if (bytes > limits_.bytes - bytes_)
    return TooMuch(std::to_string(limits_.bytes) + " bytes", limits_.bytes_option);
  ++segments_;
  bytes_ += bytes;
  return OkStatus();
}

void SegmentBudget::Return(uint64_t bytes) {
  MutexLock lock(mutex_);
  --segments_;
  bytes_ -= bytes;
}

}  // namespace braid
