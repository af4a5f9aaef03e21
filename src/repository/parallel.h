// Blocking work on several threads: ParallelFor for independent pieces, Steps for pieces that depend on
// others.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>

namespace braid {

// Calls work(0) ... work(count - 1), each once, on the calling thread and at most `max_threads` - 1 others.
// Returns when all have returned. An exception of `work` is reported and ends only that piece.
void ParallelFor(size_t count, int max_threads, const std::function<void(size_t)>& work);

// The work for the servable of one name. It runs after the work of the names in `uses`.
struct Step {
  std::set<std::string> uses;
  std::function<void()> run;
};
using Steps = std::map<std::string, Step>;  // by name

}  // namespace braid
