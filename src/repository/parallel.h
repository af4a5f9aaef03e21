// ParallelFor: does independent pieces of blocking work on a few threads.
#pragma once

#include <cstddef>
#include <functional>

namespace braid {

// Calls work(0) ... work(count - 1), each once, on the calling thread and at most `max_threads` - 1 others;
// returns when all have returned. What work throws is reported and ends that piece alone.
void ParallelFor(size_t count, int max_threads, const std::function<void(size_t)>& work);

}  // namespace braid
