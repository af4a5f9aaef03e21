// SegmentBudget: how many segments, and how many bytes of them, a peer may have this process map at one time.
//
// Counted is what is mapped, for as long as it is, whoever holds it: each mapping takes a descriptor, one of
// the mappings that the system allows a process (some 65,000), and address space, which a file without pages
// can take as well.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/mutex.h"
#include "base/status.h"

namespace braid {

// Any thread.
class SegmentBudget {
 public:
  struct Limits {
    size_t segments = SIZE_MAX;
    uint64_t bytes = UINT64_MAX;
    // The options that set them, for error texts.
    std::string segments_option;
    std::string bytes_option;
  };
  explicit SegmentBudget(Limits limits) : limits_(std::move(limits)) {}

  // For one more segment. Errors: RESOURCE_EXHAUSTED; the text goes on after "it was ended because".
  Status Take(uint64_t bytes);
  void Return(uint64_t bytes);

 private:
  const Limits limits_;
  Mutex mutex_;
  size_t segments_ BRAID_GUARDED_BY(mutex_) = 0;
  uint64_t bytes_ BRAID_GUARDED_BY(mutex_) = 0;
};

}  // namespace braid
