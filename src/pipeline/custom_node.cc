#include "pipeline/custom_node.h"

#include <utility>

namespace braid {
namespace {

void Execute(const CustomNodeCode& code, NodeRun& run) {
  if (run.cancellation != nullptr && run.cancellation->cancelled()) {
    run.Answer(CancelledError("Request cancelled before the custom node ran"), true);
    return;
  }
  Result<std::vector<Tensor>> outputs = code.Execute(run.inputs);
  run.inputs.clear();  // the next nodes have no need of them
  if (!outputs.ok()) {
    run.Answer(outputs.status(), true);
  } else {
    run.Answer(std::optional(std::move(outputs).value()), true);
  }
}

class CustomNodeSession final : public NodeSession {
 public:
  CustomNodeSession(std::shared_ptr<const CustomNodeCode> code, CustomNodeThreads& threads)
      : code_(std::move(code)), threads_(threads) {}

  void Run(const InferenceRequest&, std::unique_ptr<NodeRun> run) override {
    // Shared since work is copyable.
    threads_.Run([code = code_, run = std::shared_ptr<NodeRun>(std::move(run))] { Execute(*code, *run); });
  }

 private:
  const std::shared_ptr<const CustomNodeCode> code_;  // shared with the runs that are on their way
  CustomNodeThreads& threads_;
};

}  // namespace

Result<std::unique_ptr<NodeSession>> CustomNode::Open() const {
  return std::unique_ptr<NodeSession>(std::make_unique<CustomNodeSession>(code_, threads_));
}

}  // namespace braid
