#include "backends/native/function_model.h"

#include <string>
#include <utility>

#include "base/clock.h"
#include "base/guard.h"

namespace braid {

class FunctionModel::Call final : public Instance {
 public:
  Call(FunctionModel& model, std::string name) : model_(model), name_(std::move(name)) {}

  const std::string& name() const override { return name_; }
  void Execute(std::unique_ptr<Execution> execution) override {
    // Shared, since ElasticThreads needs copyable work.
    const auto shared = std::make_shared<std::unique_ptr<Execution>>(std::move(execution));
    model_.threads_->Run([this, shared] { Run(std::move(*shared)); });
  }

 private:
  void Run(std::unique_ptr<Execution> execution) {
    ExecutionTimes times;
    times.compute_start_ns = execution->compute_start_ns;
    times.input_end_ns = SteadyNowNs();
    std::vector<InferenceResponse> responses;
    {
      const RetryingAllocation retrying;  // the server expects that many answers
      responses.resize(execution->requests.size());
    }
    for (size_t i = 0; i < responses.size(); ++i) {
      const auto& request = execution->requests[i];
      InferenceResponse& response = responses[i];
      response.status = Guarded([&]() -> Status {
        BRAID_ASSIGN_OR_RETURN(response.outputs, model_.function_(request->inputs));
        return OkStatus();
      });
    }
    times.infer_end_ns = times.output_end_ns = SteadyNowNs();
    const RetryingAllocation retrying;
    model_.listener_->OnExecuted(*this, execution->rows, execution->requests.size(), times);
    for (size_t i = 0; i < responses.size(); ++i) {
      model_.listener_->OnResponse(*this, *execution->requests[i], std::move(responses[i]), true, times);
    }
    // Releases the inputs too, so that they return to the server with the answer.
    execution = nullptr;
    model_.listener_->OnDelivered(*this);
  }

  FunctionModel& model_;
  const std::string name_;
};

FunctionModel::FunctionModel(Function function, size_t most_calls) : function_(std::move(function)) {
  for (size_t i = 0; i < most_calls; ++i)
    calls_.push_back(std::make_unique<Call>(*this, "call_" + std::to_string(i)));
  threads_.emplace(ElasticThreads::Options{.name = "brd-call", .most = most_calls});
}

FunctionModel::~FunctionModel() = default;

std::vector<Instance*> FunctionModel::instances() {
  std::vector<Instance*> all;
  for (auto& call : calls_) all.push_back(call.get());
  return all;
}

Status FunctionModel::Start(ExecutionListener& listener, const std::function<void(const std::string&)>&) {
  listener_ = &listener;
  return OkStatus();
}

void FunctionModel::Stop(int64_t) { threads_.reset(); }

}  // namespace braid
