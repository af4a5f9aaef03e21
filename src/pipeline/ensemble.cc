#include "pipeline/ensemble.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "model_config.pb.h"
#include "pipeline/dag_runner.h"
#include "pipeline/ensemble_dag.h"
#include "pipeline/sequence_nodes.h"
#include "pipeline/servable_node.h"
#include "serving/request_check.h"
#include "serving/uses.h"

namespace braid {
namespace {

constexpr std::string_view kNoVersion = "which has no loaded version.";

std::string DependsOn(const std::string& ensemble, const std::string& model) {
  return "ensemble '" + ensemble + "' depends on '" + model + "' ";
}

// Sequences of a step are sequences of the ensemble's clients, too.
void AddSequences(const ServableInfo& step, ServableInfo& ensemble) {
  if (!ensemble.stateful) {
    ensemble.stateful = StatefulSpec{.states = {}, .max_sequences = UINT32_MAX, .allow_in_pipelines = true};
  }
  if (!step.stateful) return;
  uint32_t& most = ensemble.stateful->max_sequences;
  most = std::min(most, step.stateful->max_sequences);
}

class EnsemblePlan final : public DagPlan {
 public:
  explicit EnsemblePlan(std::string name) : name_(std::move(name)) {}

  std::string LacksVersion(const std::string& model) const override {
    return DependsOn(name_, model) + std::string(kNoVersion);
  }
  std::string NotReady(const std::string& model, const std::string& reason) const override {
    return DependsOn(name_, model) + "which is not ready: " + reason;
  }
  Status Unavailable(uint32_t node, const Status&) const override {
    return UnavailableError(LacksVersion(nodes[node].servable->name()));
  }
  Status Fault(Status status, uint32_t) const override {
    return status.WithPrefix("in ensemble '" + name_ + "', ");
  }

 private:
  const std::string name_;
};

class RunningEnsemble final : public Ensemble {
 public:
  RunningEnsemble(ServableInfo info, std::shared_ptr<const EnsemblePlan> plan,
                  std::shared_ptr<SequenceQueue> queue)
      : Ensemble(std::move(info)), runner_(*this, std::move(plan), std::move(queue)) {}

  BufferAllocator& input_allocator() override { return runner_.input_allocator(); }
  void Infer(std::unique_ptr<InferenceRequest> request) override {
    Status status = ReadSequence(info_, *request);
    if (status.ok()) status = CheckRequest(info_, *request);
    if (!status.ok()) {
      request->Refuse(std::move(status));
      return;
    }
    runner_.Run(std::move(request));
  }
  Readiness readiness() const override { return runner_.readiness(); }
  void CheckReadiness(std::function<void(Readiness)> done) override {
    runner_.CheckReadiness(std::move(done));
  }
  int64_t pending_requests() const override { return runner_.waiting(); }
  std::vector<ServableUse> uses() const override { return runner_.uses(); }
  const std::shared_ptr<SequenceQueue>& queue() const { return runner_.queue(); }
  void DropSequence(const CorrelationId& id) override { runner_.DropSequence(id); }
  void MarkSequence(const CorrelationId& id, std::vector<TakeBackSteps>& marks) override {
    runner_.MarkSequence(id, marks);
  }
  void Stop(int64_t deadline_ns) override { runner_.Stop(deadline_ns); }

 private:
  DagRunner runner_;
};

}  // namespace

Result<std::shared_ptr<Servable>> Ensemble::Create(ServableInfo info, const Catalog& catalog, Timers& timers,
                                                   const WhyMissing& why_missing) {
  BRAID_CHECK(info.config != nullptr);
  auto config = std::make_shared<inference::ModelConfig>(*info.config);
  BRAID_RETURN_IF_ERROR(CheckEnsembleConfig(*config));
  info.kind = ServableKind::kEnsemble;
  info.platform = "ensemble";
  info.instance_count = 0;
  config->set_platform("ensemble");

  auto plan = std::make_shared<EnsemblePlan>(info.name);
  plan->options.max_runs_per_node = config->ensemble_scheduling().max_inflight_requests();
  std::vector<std::shared_ptr<const ServableInfo>> models;
  for (const auto& step : config->ensemble_scheduling().step()) {
    std::vector<std::string> outputs;
    for (const auto& [output, tensor] : step.output_map()) outputs.push_back(output);
    std::sort(outputs.begin(), outputs.end());
    auto node =
        std::make_unique<ServableNode>(catalog, step.model_name(), StepVersion(step), std::move(outputs));
    auto model = node->servable().Get();
    const ServableReference* servable = &node->servable();
    plan->nodes.push_back({std::move(node), servable});
    if (!model.ok()) {
      std::string tail = why_missing ? why_missing(step.model_name()) : std::string(kNoVersion);
      if (StepVersion(step) > 0 && catalog.Find(step.model_name(), -1).ok()) {
        tail = "whose required version " + std::to_string(StepVersion(step)) + " is not loaded.";
      }
      return InvalidArgumentError(DependsOn(info.name, step.model_name()) + tail);
    }
    if (LeadsTo(catalog, step.model_name(), info.name)) {
      return InvalidArgumentError(DependsOn(info.name, step.model_name()) + "which leads back to it.");
    }
    info.decoupled = info.decoupled || (*model)->info().decoupled;
    if ((*model)->has_sequences()) AddSequences((*model)->info(), info);
    info.makes_calls = info.makes_calls || (*model)->info().makes_calls;
    models.emplace_back(*model, &(*model)->info());
  }
  if (info.decoupled) config->mutable_model_transaction_policy()->set_decoupled(true);
  info.config = std::move(config);
  BRAID_ASSIGN_OR_RETURN(plan->dag, MakeEnsembleDag(info, models));
  BRAID_RETURN_IF_ERROR(CheckEnsembleSequences(info, *plan->dag, models));
  std::shared_ptr<SequenceQueue> queue;  // shared with the one that this may replace
  if (info.stateful) {
    const auto named = catalog.Find(info.name, info.version);
    const auto* before = named.ok() ? dynamic_cast<const RunningEnsemble*>(named->get()) : nullptr;
    if (before != nullptr) queue = before->queue();
    if (queue == nullptr) queue = std::make_shared<SequenceQueue>(timers);
  }
  return std::shared_ptr<Servable>(
      std::make_shared<RunningEnsemble>(std::move(info), std::move(plan), std::move(queue)));
}

}  // namespace braid
