#include "scheduling/warmup.h"

#include <algorithm>
#include <future>
#include <iterator>

#include "base/clock.h"
#include "serving/request_check.h"

namespace braid {
namespace {

// Passes the first error, or the success, to the thread that waits.
class WarmupSink final : public ResponseSink {
 public:
  void Respond(std::optional<InferenceResponse> response, bool final) override {
    if (status_.ok() && response) status_ = response->status;
    if (final) ended_.set_value(status_);
  }
  Status Wait() { return ended_.get_future().get(); }

 private:
  Status status_;
  std::promise<Status> ended_;
};

// Adds an input; replaces one of the same name.
void Override(const Tensor& input, std::vector<Tensor>& inputs) {
  const auto given =
      std::find_if(inputs.begin(), inputs.end(), [&](const Tensor& each) { return each.name == input.name; });
  if (given == inputs.end()) {
    inputs.push_back(input);
  } else {
    *given = input;
  }
}

Status RunOne(const ServableInfo& info, Instance& instance, const WarmupSample& sample,
              const std::function<void(InferenceRequest&)>& prepare,
              const std::function<void(Instance&, std::unique_ptr<Execution>)>& execute) {
  WarmupSink sink;
  auto request = std::make_unique<InferenceRequest>();
  request->model_name = info.name;
  request->model_version = info.version;
  const auto is_override = [&](const Tensor& input) {
    return std::none_of(info.inputs.begin(), info.inputs.end(),
                        [&](const TensorSpec& spec) { return spec.name == input.name; });
  };
  std::remove_copy_if(sample.inputs.begin(), sample.inputs.end(), std::back_inserter(request->inputs),
                      is_override);
  request->sink = &sink;
  if (Status status = CheckRequest(info, *request); !status.ok()) {
    request->sink = nullptr;
    return status;
  }
  if (request->inputs.empty()) request->batch_size = sample.batch_size;
  prepare(*request);
  for (const Tensor& input : sample.inputs) {
    if (is_override(input)) Override(input, request->inputs);
  }
  request->start_ns = request->queue_start_ns = SteadyNowNs();
  auto execution = std::make_unique<Execution>();
  execution->rows = request->batch_size;
  execution->compute_start_ns = request->start_ns;
  execution->requests.push_back(std::move(request));
  execute(instance, std::move(execution));
  // User code may take as long as it needs; if an instance dies, its requests fail.
  return sink.Wait();
}

}  // namespace

Status RunWarmup(const ServableInfo& info, const std::vector<Instance*>& instances,
                 const std::vector<WarmupSample>& samples,
                 const std::function<void(InferenceRequest&)>& prepare,
                 const std::function<void(Instance&, std::unique_ptr<Execution>)>& execute,
                 const std::function<void(const std::string&)>& progress) {
  for (const WarmupSample& sample : samples) {
    progress("running warmup sample '" + sample.name + "'");
    for (Instance* instance : instances) {
      for (uint32_t i = 0; i < sample.count; ++i) {
        if (const Status status = RunOne(info, *instance, sample, prepare, execute); !status.ok()) {
          return InvalidArgumentError("failed to run warmup sample '" + sample.name +
                                      "': " + status.message() + "; ");
        }
      }
    }
  }
  return OkStatus();
}

}  // namespace braid
