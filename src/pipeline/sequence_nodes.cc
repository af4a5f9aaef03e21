#include "pipeline/sequence_nodes.h"

#include <string>
#include <utility>
#include <vector>

#include "serving/sequence_inputs.h"

namespace braid {
namespace {

class WatchedRun final : public NodeRun {
 public:
  WatchedRun(std::unique_ptr<NodeRun> run, std::shared_ptr<SequenceTurn> turn, size_t part)
      : run_(std::move(run)), turn_(std::move(turn)), part_(part) {
    inputs = std::move(run_->inputs);
    cancellation = run_->cancellation;
  }

  void Answer(Result<std::optional<std::vector<Tensor>>> outputs, bool final) override {
    if (status_.ok()) status_ = outputs.status();
    // First of all: the answer may end the request.
    if (final) turn_->Answered(part_, status_);
    run_->Answer(std::move(outputs), final);
  }

 private:
  const std::unique_ptr<NodeRun> run_;
  const std::shared_ptr<SequenceTurn> turn_;  // shared with the request's other nodes
  const size_t part_;
  Status status_;
};

class WatchedSession final : public NodeSession {
 public:
  WatchedSession(std::unique_ptr<NodeSession> node, std::shared_ptr<SequenceTurn> turn, size_t part)
      : node_(std::move(node)), turn_(std::move(turn)), part_(part) {}

  void Run(const InferenceRequest& request, std::unique_ptr<NodeRun> run) override {
    turn_->Asked(part_);
    node_->Run(request, std::make_unique<WatchedRun>(std::move(run), turn_, part_));
  }
  BufferAllocator* input_allocator() override { return node_->input_allocator(); }
  std::shared_ptr<Servable> servable() const override { return node_->servable(); }

 private:
  const std::unique_ptr<NodeSession> node_;
  const std::shared_ptr<SequenceTurn> turn_;  // shared with the request's other nodes
  const size_t part_;
};

}  // namespace

Status ReadSequence(const ServableInfo& info, InferenceRequest& request) {
  if (!info.stateful) return OkStatus();
  BRAID_RETURN_IF_ERROR(TakeSequenceInputs(request));
  // Each response has it, whether it is asked for or not.
  std::erase(request.requested_outputs, kSequenceIdInput);
  if (request.correlation_id == CorrelationId(uint64_t{0})) request.correlation_id = RandomSequenceId();
  return OkStatus();
}

std::shared_ptr<SequenceTurn> WatchSequence(const InferenceRequest& request,
                                            std::vector<std::unique_ptr<NodeSession>>& nodes) {
  std::shared_ptr<SequenceTurn> turn;  // shared by the nodes and whoever tells it of the failure
  for (auto& node : nodes) {
    const auto servable = node->servable();
    if (servable == nullptr || !servable->has_sequences()) continue;
    if (turn == nullptr) {
      turn = std::make_shared<SequenceTurn>(request.correlation_id, request.sequence_start,
                                            request.sequence_end);
    }
    const size_t part = turn->Add(servable);
    node = std::make_unique<WatchedSession>(std::move(node), turn, part);
  }
  return turn;
}

}  // namespace braid
