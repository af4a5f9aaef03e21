#include "pipeline/pipeline.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "images/encoded_images.h"
#include "pipeline/convert_precision.h"
#include "pipeline/dag_runner.h"
#include "pipeline/pipeline_check.h"
#include "pipeline/pipeline_definition.h"
#include "pipeline/sequence_nodes.h"
#include "pipeline/servable_node.h"
#include "scheduling/request_intake.h"
#include "serving/ovms_status.h"
#include "serving/string_tensors.h"
#include "serving/uses.h"

namespace braid {
namespace {

class PipelinePlan final : public DagPlan {
 public:
  explicit PipelinePlan(std::string name) : name_(std::move(name)) {}

  std::string LacksVersion(const std::string& model) const override {
    return "pipeline '" + name_ + "' needs model '" + model + "', of which no version is loaded";
  }
  std::string NotReady(const std::string& model, const std::string& reason) const override {
    return "pipeline '" + name_ + "' needs model '" + model + "', which is not ready: " + reason;
  }
  Status Unavailable(uint32_t node, const Status& why) const override {
    const ServableReference* servable = nodes[node].servable;
    if (servable == nullptr) return Fault(why, node);
    return OvmsError(OvmsCode::kPipelineNotLoadedYet, LacksVersion(servable->name()));
  }
  // The text begins as clients know it, and ends with where that was.
  Status Fault(Status status, uint32_t node) const override {
    if (status.code() == StatusCode::kCancelled) return status;
    std::string text = status.message() + " (pipeline '" + name_ + "'";
    if (node != Dag::kNone) text += ", " + dag->nodes()[node].name;
    Status fault(status.code(), text + ")");
    return status.http_status() > 0 ? fault.WithHttpStatus(status.http_status()) : fault;
  }
  Status MissingOutput(uint32_t node, const std::string& output) const override {
    const bool custom = nodes[node].servable == nullptr;
    return OvmsError(custom ? OvmsCode::kNodeLibraryMissingOutput : OvmsCode::kInternalError,
                     custom ? "output '" + output + "'" : "the model did not give output '" + output + "'");
  }
  Status FinishOutputs(std::vector<Tensor>& outputs) const override { return RowsToStrings(outputs); }

 private:
  const std::string name_;
};

class RunningPipeline final : public Pipeline {
 public:
  RunningPipeline(ServableInfo info, std::shared_ptr<const PipelinePlan> plan,
                  std::shared_ptr<SequenceQueue> queue)
      : Pipeline(std::move(info)), runner_(*this, std::move(plan), std::move(queue)) {}

  BufferAllocator& input_allocator() override { return runner_.input_allocator(); }

  void Infer(std::unique_ptr<InferenceRequest> request) override {
    if (Status status = ReadSequence(info_, *request); !status.ok()) {
      request->Refuse(std::move(status));
      return;
    }
    const bool decodes = NeedsDecoding(info_, *request);
    if (!decodes) {
      if (Status status = FinishIntake(info_, *request); !status.ok()) {
        request->Refuse(std::move(status));
        return;
      }
    }
    const auto entry = runner_.Enter(*request);
    if (!entry.ok()) {
      runner_.Refuse(std::move(request), nullptr, entry.status());
      return;
    }
    if (!decodes) {
      runner_.Run(std::move(request), *entry);
      return;
    }
    // The request's entry in the servable keeps this.
    DecodeImagesThen(std::move(request), [this, entry = *entry](auto decoded, Status status) {
      if (status.ok()) status = FinishIntake(info_, *decoded);
      if (status.ok()) {
        runner_.Run(std::move(decoded), entry);
      } else {
        runner_.Refuse(std::move(decoded), entry, std::move(status));
      }
    });
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

// Makes what runs the nodes, and finds out what there is to know of them.
class Nodes {
 public:
  Nodes(const OvmsPipelineConfig& config, const Catalog& catalog, const CustomNodeLibraries& libraries,
        CustomNodeThreads& threads)
      : definition(config), catalog_(catalog), libraries_(libraries), threads_(threads) {
    for (const OvmsNodeConfig& node : config.nodes) Add(node);
  }

  // REQUIRES: the definition has no fault.
  void Finish(PipelinePlan& plan) {
    std::vector<ConvertingNode::Precisions> precisions(definition.nodes().size());
    for (const PrecisionChange& change : PrecisionChanges(definition)) {
      precisions[change.node].emplace_back(change.input, change.to);
    }
    for (size_t i = 0; i < definition.nodes().size(); ++i) {
      const PipelineNode& node = definition.nodes()[i];
      PlanNode made;
      if (codes_[i]) {
        made.node = std::make_unique<CustomNode>(codes_[i], threads_);
      } else {
        auto servable =
            std::make_unique<ServableNode>(catalog_, node.config.model_name, node.config.version.value_or(-1),
                                           UsedOutputs(definition, node));
        made.servable = &servable->servable();
        made.node = std::move(servable);
      }
      if (!precisions[i].empty()) {
        made.node = std::make_unique<ConvertingNode>(std::move(made.node), std::move(precisions[i]));
      }
      plan.nodes.push_back(std::move(made));
    }
  }

  PipelineDefinition definition;
  bool makes_calls = false;  // a servable behind a node does

 private:
  void Add(const OvmsNodeConfig& config) {
    PipelineNode node;
    node.config = config;
    std::shared_ptr<const CustomNodeCode> code;
    if (config.type == OvmsNodeConfig::Type::kCustom) {
      code = LookAtLibrary(node);
    } else {
      LookAtModel(node);
    }
    definition.AddNode(std::move(node));
    codes_.push_back(std::move(code));
  }

  std::shared_ptr<const CustomNodeCode> LookAtLibrary(PipelineNode& node) {
    const auto library = libraries_.find(node.config.library_name);
    if (library == libraries_.end()) {
      node.library = OvmsError(
          OvmsCode::kPipelineInvalidNodeLibrary,
          "library '" + node.config.library_name + "' is not in the custom_node_library_config_list");
      return nullptr;
    }
    if (!library->second.ok()) {
      node.library =
          OvmsError(OvmsCode::kPipelineInvalidNodeLibrary,
                    "library '" + node.config.library_name + "': " + library->second.status().message());
      return nullptr;
    }
    auto code = CustomNodeCode::Create(*library->second, node.config.name, node.config.params);
    if (!code.ok()) {
      node.library = code.status();
      return nullptr;
    }
    auto inputs = (*code)->Inputs();
    auto outputs = (*code)->Outputs();
    if (!inputs.ok() || !outputs.ok()) {
      node.behind = inputs.ok() ? outputs.status() : inputs.status();
      return nullptr;
    }
    node.known = true;
    node.inputs = std::move(*inputs);
    node.outputs = std::move(*outputs);
    // Custom nodes take images in any order of dimensions.
    for (TensorSpec& input : node.inputs) {
      if (input.layout.empty()) input.layout = "...";
    }
    return std::move(*code);
  }

  void LookAtModel(PipelineNode& node) {
    const std::string& name = node.config.model_name;
    const std::string& pipeline = definition.config.name;
    if (LeadsTo(catalog_, name, pipeline)) {
      const auto found = catalog_.Find(name, -1);
      const bool ensemble = found.ok() && (*found)->info().kind == ServableKind::kEnsemble;
      node.behind = OvmsError(OvmsCode::kPipelineCycleFound,
                              name == pipeline ? std::string("the pipeline is a node of itself")
                                               : std::string(ensemble ? "ensemble '" : "pipeline '")
                                                     .append(name)
                                                     .append("' leads back to '")
                                                     .append(pipeline)
                                                     .append("'"));
      return;
    }
    const int64_t version = node.config.version.value_or(-1);
    auto servable = catalog_.Find(name, version);
    if (!servable.ok()) {
      const std::string which = version > 0 ? ", version " + std::to_string(version) : "";
      node.behind = OvmsError(OvmsCode::kPipelineMissingModel,
                              "model '" + name + "'" + which + ": " + servable.status().message());
      return;
    }
    const ServableInfo& info = (*servable)->info();
    node.known = true;
    node.inputs = info.inputs;
    node.outputs = info.outputs;
    node.config_model = info.kind == ServableKind::kModel && info.dialect == Dialect::kOvms;
    node.automatic_shape = info.automatic_shape;
    if (info.automatic_shape) {
      for (TensorSpec& spec : node.inputs) Loosen(spec);
      for (TensorSpec& spec : node.outputs) Loosen(spec);
    }
    node.decoupled = info.decoupled;
    node.stateful = info.stateful;
    // Whether a DAG may ask the models of its sessions is looked at where it is loaded.
    if (!node.stateful && (*servable)->has_sequences()) {
      node.stateful = StatefulSpec{.states = {}, .max_sequences = UINT32_MAX, .allow_in_pipelines = true};
    }
    node.version = info.version;
    makes_calls = makes_calls || info.makes_calls;
  }

  // The shape of a model that follows its requests says how many dimensions there are, and no more.
  static void Loosen(TensorSpec& spec) { SetDimensions(Dimensions(spec.shape.size(), kAnySize), spec); }

  const Catalog& catalog_;
  const CustomNodeLibraries& libraries_;
  CustomNodeThreads& threads_;
  std::vector<std::shared_ptr<const CustomNodeCode>> codes_;  // by node; null for models and where unknown
};

}  // namespace

std::vector<ServableUse> UsesOfPipeline(const OvmsPipelineConfig& config) {
  std::vector<ServableUse> uses;
  for (const OvmsNodeConfig& node : config.nodes) {
    if (node.type == OvmsNodeConfig::Type::kModel)
      uses.push_back({node.model_name, node.version.value_or(-1)});
  }
  return uses;
}

Result<std::shared_ptr<Servable>> Pipeline::Create(const OvmsPipelineConfig& config, const Catalog& catalog,
                                                   const CustomNodeLibraries& libraries,
                                                   CustomNodeThreads& threads, Timers& timers) {
  PipelineFaults faults(config.name);
  const auto named = catalog.Find(config.name, -1);
  if (named.ok() && (*named)->info().kind != ServableKind::kPipeline) {
    faults.Add(OvmsCode::kPipelineNameOccupied, "", "");
  }
  Nodes nodes(config, catalog, libraries, threads);
  const PipelineDefinition& definition = nodes.definition;
  CheckDefinition(definition, faults);
  if (!faults.empty()) return faults.ToStatus();

  auto plan = std::make_shared<PipelinePlan>(config.name);
  auto dag = Dag::Build(MakeDagSpec(definition));
  if (!dag.ok()) {
    return OvmsError(OvmsCode::kInternalError, "pipeline '" + config.name + "': " + dag.status().message());
  }
  plan->dag = std::move(*dag);
  nodes.Finish(*plan);

  ServableInfo info;
  info.name = config.name;
  info.version = 1;
  info.kind = ServableKind::kPipeline;
  info.dialect = Dialect::kOvms;
  info.platform = "OpenVINO";
  info.instance_count = 0;
  info.inputs = PipelineInputs(definition);
  info.outputs = PipelineOutputs(definition);
  info.stateful = PipelineSequences(definition);
  info.makes_calls = nodes.makes_calls;
  std::shared_ptr<SequenceQueue> queue;  // shared with the one that this may replace
  if (info.stateful) {
    const auto* before = named.ok() ? dynamic_cast<const RunningPipeline*>(named->get()) : nullptr;
    if (before != nullptr) queue = before->queue();
    if (queue == nullptr) queue = std::make_shared<SequenceQueue>(timers);
  }
  return std::shared_ptr<Servable>(
      std::make_shared<RunningPipeline>(std::move(info), std::move(plan), std::move(queue)));
}

}  // namespace braid
