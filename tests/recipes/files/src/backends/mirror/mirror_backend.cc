#include "backends/mirror/mirror_backend.h"

#include <algorithm>
#include <utility>

#include "model_config.pb.h"

namespace braid {
namespace {

class MirrorModel final : public BackendModel, public Instance {
 public:
  explicit MirrorModel(std::shared_ptr<const inference::ModelConfig> config) : config_(std::move(config)) {}

  BufferAllocator& input_allocator() override { return memory_; }
  std::vector<Instance*> instances() override { return {this}; }
  Status Start(ExecutionListener& listener, const std::function<void(const std::string&)>&) override {
    listener_ = &listener;
    return OkStatus();
  }
  void Stop(int64_t) override {}
  Readiness readiness() const override { return {}; }

  const std::string& name() const override { return config_->name(); }
  // Every execution ends within the call.
  void Execute(std::unique_ptr<Execution> execution) override {
    const int64_t now_ns = execution->compute_start_ns;
    const ExecutionTimes times{now_ns, now_ns, now_ns, now_ns};
    listener_->OnExecuted(*this, execution->rows, execution->requests.size(), times);
    for (auto& request : execution->requests)
      listener_->OnResponse(*this, *request, Answer(*request), true, times);
    listener_->OnDelivered(*this);
  }

 private:
  InferenceResponse Answer(const InferenceRequest& request) const {
    InferenceResponse response;
    for (int i = 0; i < std::min(config_->input_size(), config_->output_size()); ++i) {
      const auto input = std::ranges::find(request.inputs, config_->input(i).name(), &Tensor::name);
      response.outputs.push_back(*input);
      response.outputs.back().name = config_->output(i).name();
    }
    return response;
  }

  const std::shared_ptr<const inference::ModelConfig> config_;
  HeapAllocator memory_;
  ExecutionListener* listener_ = nullptr;
};

}  // namespace

Result<std::unique_ptr<BackendModel>> MirrorBackend::Create(
    const ModelLocation&, std::shared_ptr<const inference::ModelConfig> config) {
  return std::unique_ptr<BackendModel>(std::make_unique<MirrorModel>(std::move(config)));
}

}  // namespace braid
