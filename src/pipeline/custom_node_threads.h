// CustomNodeThreads: a pool of threads for the code of custom nodes, which may block.
#pragma once

#include <functional>
#include <utility>

#include "base/elastic_threads.h"

namespace braid {

// Starts threads on demand and ends them after some idle seconds. While kMostThreads threads work, further
// work waits in order. The destructor waits until all work is done.
class CustomNodeThreads {
 public:
  static constexpr size_t kMostThreads = 64;

  void Run(std::function<void()> work) { threads_.Run(std::move(work)); }

 private:
  ElasticThreads threads_{{.name = "brd-node", .most = kMostThreads}};
};

}  // namespace braid
