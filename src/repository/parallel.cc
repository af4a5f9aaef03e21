#include "repository/parallel.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "base/guard.h"
#include "base/thread.h"

namespace braid {

void ParallelFor(size_t count, int max_threads, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next{0};
  auto run = [&] {
    for (size_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) {
      GuardedOrReport("brd-load", [&] { work(i); });
    }
  };
  const size_t helpers = std::min(count, static_cast<size_t>(std::max(max_threads, 1)));
  std::vector<std::thread> threads;
  threads.reserve(helpers);
  for (size_t i = 1; i < helpers; ++i) {
    try {
      threads.push_back(StartThread("brd-load", run));
    } catch (const std::system_error&) {
      break;  // no more threads can be started; the running ones do the work
    } catch (const std::bad_alloc&) {
      break;
    }
  }
  run();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace braid
