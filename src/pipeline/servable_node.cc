#include "pipeline/servable_node.h"

#include <utility>

#include "base/clock.h"
#include "base/guard.h"

namespace braid {
namespace {

// Turns the responses of one request into the answers of one run. Deletes itself with the last one.
class StepSink final : public ResponseSink {
 public:
  explicit StepSink(std::unique_ptr<NodeRun> run) : run_(std::move(run)) {}

  void Respond(std::optional<InferenceResponse> response, bool final) override {
    std::unique_ptr<StepSink> self(final ? this : nullptr);
    if (!response) {
      run_->Answer(std::optional<std::vector<Tensor>>(), final);
    } else if (!response->status.ok()) {
      run_->Answer(response->status, final);
    } else {
      run_->Answer(std::optional(std::move(response->outputs)), final);
    }
  }

 private:
  const std::unique_ptr<NodeRun> run_;
};

// The request to a step, in all but its sink and its place in the servable. All that a client said about its
// request holds for every step of it.
std::unique_ptr<InferenceRequest> MakeStepRequest(const InferenceRequest& from, const Servable& servable,
                                                  const std::vector<std::string>& outputs, NodeRun& run) {
  auto request = std::make_unique<InferenceRequest>();
  request->id = from.id;
  request->model_name = servable.info().name;
  request->model_version = servable.info().version;
  request->correlation_id = from.correlation_id;
  request->sequence_start = from.sequence_start;
  request->sequence_end = from.sequence_end;
  request->priority = from.priority;
  request->timeout_us = from.timeout_us;
  request->parameters = from.parameters;
  request->inputs = std::move(run.inputs);
  request->requested_outputs = outputs;
  request->start_ns = SteadyNowNs();
  request->cancellation = run.cancellation;
  request->call_chain = from.call_chain;
  request->here = from.here;
  if (from.trace) request->trace = from.trace->StartChild(request->model_name, request->model_version);
  return request;
}

class ServableNodeSession final : public NodeSession {
 public:
  ServableNodeSession(std::unique_ptr<ServableHandle> servable, const std::vector<std::string>& outputs)
      : servable_(std::move(servable)), outputs_(outputs) {}

  void Run(const InferenceRequest& request, std::unique_ptr<NodeRun> run) override {
    Servable& servable = servable_->get();
    std::unique_ptr<InferenceRequest> step;
    {
      const PatientAllocation patience;
      step = MakeStepRequest(request, servable, outputs_, *run);
      step->servable = servable_->Another();
      step->sink = new StepSink(std::move(run));
    }
    servable.Begin(std::move(step));
  }

  BufferAllocator* input_allocator() override { return &servable_->get().input_allocator(); }
  std::shared_ptr<Servable> servable() const override { return servable_->share(); }

 private:
  const std::unique_ptr<ServableHandle> servable_;
  const std::vector<std::string>& outputs_;
};

}  // namespace

Result<std::unique_ptr<NodeSession>> ServableNode::Open() const {
  BRAID_ASSIGN_OR_RETURN(auto handle, servable_.Enter());
  return std::unique_ptr<NodeSession>(std::make_unique<ServableNodeSession>(std::move(handle), outputs_));
}

}  // namespace braid
