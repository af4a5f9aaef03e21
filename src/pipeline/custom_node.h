// CustomNode: the node of a DAG whose work a custom node library does.
#pragma once

#include <functional>
#include <memory>

#include "base/elastic_threads.h"
#include "pipeline/custom_node_library.h"
#include "pipeline/node.h"

namespace braid {

// Threads for custom nodes, which may block. Made as they are needed, gone when they have been idle for some
// seconds; what comes when kMostThreads work waits in order. The end of it waits for what runs.
class CustomNodeThreads {
 public:
  static constexpr size_t kMostThreads = 64;

  void Run(std::function<void()> work) { threads_.Run(std::move(work)); }

 private:
  ElasticThreads threads_{{.name = "brd-node", .most = kMostThreads}};
};

class CustomNode final : public Node {
 public:
  // `threads` outlives the node and its sessions.
  CustomNode(std::shared_ptr<const CustomNodeCode> code, CustomNodeThreads& threads)
      : code_(std::move(code)), threads_(threads) {}

  Result<std::unique_ptr<NodeSession>> Open() const override;

 private:
  const std::shared_ptr<const CustomNodeCode> code_;  // shared with the runs that are on their way
  CustomNodeThreads& threads_;
};

}  // namespace braid
