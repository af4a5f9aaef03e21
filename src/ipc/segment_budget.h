// SegmentBudget: limits the segments, and their bytes, that a peer can have mapped in this process at one
// time.
//
// A mapping counts for as long as it exists, regardless of its holder. Each one takes a descriptor, one of
// the some 65,000 mappings that the system allows a process, and address space. Even a file without pages
// takes address space.
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
    // The names of the options, for error texts.
    std::string segments_option;
    std::string bytes_option;
  };
  explicit SegmentBudget(Limits limits) : limits_(std::move(limits)) {}

  // Counts one more segment. Errors: RESOURCE_EXHAUSTED, with a text that continues "it was ended because".
  Status Take(uint64_t bytes);
  void Return(uint64_t bytes);

 private:
  const Limits limits_;
  Mutex mutex_;
  size_t segments_ BRAID_GUARDED_BY(mutex_) = 0;
  uint64_t bytes_ BRAID_GUARDED_BY(mutex_) = 0;
};

}  // namespace braid
