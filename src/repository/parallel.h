// Blocking work on a few threads: ParallelFor for pieces that are independent, Steps for pieces of which some
// come after others.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>

namespace braid {

// Calls work(0) ... work(count - 1), each once, on the calling thread and at most `max_threads` - 1 others;
// returns when all have returned. What work throws is reported and ends that piece alone.
void ParallelFor(size_t count, int max_threads, const std::function<void(size_t)>& work);

// What is to be done for the servable of one name, after what is to be done for those that it uses.
struct Step {
  std::set<std::string> uses;
  std::function<void()> run;
};
using Steps = std::map<std::string, Step>;  // by name

}  // namespace braid
