// CustomNodeThreads: where the code of custom nodes runs, which may block.
#pragma once

#include <functional>
#include <utility>

#include "base/elastic_threads.h"

namespace braid {

// Made as they are needed, gone when they have been idle for some seconds; what comes when kMostThreads work
// waits in order. The end of it waits for what runs.
class CustomNodeThreads {
 public:
  static constexpr size_t kMostThreads = 64;

  void Run(std::function<void()> work) { threads_.Run(std::move(work)); }

 private:
  ElasticThreads threads_{{.name = "brd-node", .most = kMostThreads}};
};

}  // namespace braid
