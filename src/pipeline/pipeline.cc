#include "pipeline/pipeline.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "pipeline/pipeline_check.h"
#include "pipeline/pipeline_definition.h"
#include "serving/faults.h"
#include "serving/string_tensors.h"
#include "serving/uses.h"

namespace braid {
namespace {

// Makes the steps of the nodes, and collects the facts about them.
class Nodes {
 public:
  Nodes(const OvmsPipelineConfig& config, const Catalog& catalog, const CustomNodeLibraries& libraries,
        CustomNodeThreads& threads)
      : definition(config), catalog_(catalog), libraries_(libraries), threads_(threads) {
    for (const OvmsNodeConfig& node : config.nodes) Add(node);
  }

  // REQUIRES: the definition has no fault.
  void AddSteps(DagPlan& plan) {
    for (size_t i = 0; i < definition.nodes().size(); ++i) {
      const PipelineNode& node = definition.nodes()[i];
      DagStep& step = plan.steps.emplace_back();
      if (codes_[i]) {
        step.code = codes_[i];
      } else {
        step.servable = std::make_unique<ServableReference>(catalog_, node.config.model_name,
                                                            node.config.version.value_or(-1));
        step.outputs = UsedOutputs(definition, node);
      }
    }
    for (const PrecisionChange& change : PrecisionChanges(definition)) {
      plan.steps[change.node].precisions.emplace_back(change.input, change.to);
    }
    plan.threads = &threads_;
  }

  PipelineDefinition definition;
  bool makes_calls = false;  // whether a servable behind a node does

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
      node.library = FaultError(
          Fault::kPipelineInvalidNodeLibrary,
          "library '" + node.config.library_name + "' is not in the custom_node_library_config_list");
      return nullptr;
    }
    if (!library->second.ok()) {
      node.library =
          FaultError(Fault::kPipelineInvalidNodeLibrary,
                     "library '" + node.config.library_name + "': " + library->second.status().message());
      return nullptr;
    }
    auto code = (*library->second)->CodeFor(node.config.name, node.config.params);
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
    // Custom nodes take images with dimensions in any order.
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
      node.behind = FaultError(Fault::kPipelineCycleFound,
                               name == pipeline ? std::string("the pipeline contains itself")
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
      node.behind = FaultError(Fault::kPipelineMissingModel,
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
    // The DAG's own models are checked for this when the DAG is loaded.
    if (!node.stateful && (*servable)->has_sequences()) {
      node.stateful = StatefulSpec{.states = {}, .max_sequences = UINT32_MAX, .allow_in_pipelines = true};
    }
    node.version = info.version;
    makes_calls = makes_calls || info.makes_calls;
  }

  // If a model's shape follows its requests, only the number of dimensions is known.
  static void Loosen(TensorSpec& spec) { SetDimensions(Dimensions(spec.shape.size(), kAnySize), spec); }

  const Catalog& catalog_;
  const CustomNodeLibraries& libraries_;
  CustomNodeThreads& threads_;
  std::vector<std::shared_ptr<const CustomNodeCode>> codes_;  // by node; null for models and where unknown
};

// Returns "demultiply_count: 4", as in the file, where 0 means any number.
std::string DemultiplyNote(int32_t count) {
  return "demultiply_count: " + std::to_string(std::max(count, 0));
}

// The edges are in the order of the DAG (MakeDagSpec()).
DagStructure::Words WordsOf(const OvmsPipelineConfig& config) {
  DagStructure::Words words;
  if (config.demultiply_count) words.request_note = DemultiplyNote(*config.demultiply_count);
  for (const OvmsNodeConfig& node : config.nodes) {
    StructureNode& made = words.nodes.emplace_back();
    const bool custom = node.type == OvmsNodeConfig::Type::kCustom;
    made.kind = custom ? StructureNodeKind::kCustomNode : StructureNodeKind::kModel;
    made.name = node.name;
    made.runs = custom ? node.library_name : node.model_name;
    made.version = node.version.value_or(-1);
    if (node.gather_from_node) made.note = "gather_from_node: " + *node.gather_from_node;
    if (node.demultiply_count) {
      if (!made.note.empty()) made.note += ", ";
      made.note += DemultiplyNote(*node.demultiply_count);
    }
    for (const OvmsConnection& input : node.inputs) words.aliases.push_back(input.source.data_item);
  }
  for (const OvmsConnection& output : config.outputs) words.aliases.push_back(output.source.data_item);
  return words;
}

}  // namespace

std::vector<ServableUse> UsesOfPipeline(const OvmsPipelineConfig& config) {
  std::vector<ServableUse> uses;
  for (const OvmsNodeConfig& node : config.nodes) {
    if (node.type == OvmsNodeConfig::Type::kModel)
      uses.push_back({node.model_name, node.version.value_or(-1)});
  }
  return uses;
}

Result<std::shared_ptr<Servable>> MakePipeline(const OvmsPipelineConfig& config,
                                               const CustomNodeLibraries& libraries,
                                               CustomNodeThreads& threads, const DagDeps& deps,
                                               std::vector<PipelineFault>* found) {
  const std::string pipeline = "pipeline '" + config.name + "'";
  PipelineFaults faults(config.name);
  const auto named = deps.catalog.Find(config.name, -1);
  if (named.ok() && (*named)->info().kind != ServableKind::kPipeline) {
    faults.Add(Fault::kPipelineNameOccupied, "", "");
  }
  Nodes nodes(config, deps.catalog, libraries, threads);
  const PipelineDefinition& definition = nodes.definition;
  CheckDefinition(definition, faults);
  if (found != nullptr) *found = faults.all();
  if (!faults.empty()) return faults.ToStatus();

  auto plan = std::make_shared<DagPlan>();  // shared by the servable and its sessions
  auto dag = Dag::Build(MakeDagSpec(definition));
  if (!dag.ok()) return FaultError(Fault::kInternalError, pipeline + ": " + dag.status().message());
  plan->dag = std::move(*dag);
  nodes.AddSteps(*plan);
  plan->structure = std::make_unique<DagStructure>(*plan->dag, WordsOf(config));
  plan->needs = pipeline + " needs model '";
  plan->no_version = "', which has no loaded version";
  plan->not_ready = "', which is not ready: ";
  plan->unavailable = [](std::string text) { return FaultError(Fault::kPipelineNotLoadedYet, text); };
  // The functions belong to the plan and live no longer than it.
  plan->fault = [pipeline, &dag = *plan->dag](const Status& status, uint32_t node) {
    if (status.code() == StatusCode::kCancelled) return status;
    return FaultAt(status, node == Dag::kNone ? pipeline : pipeline + ", " + dag.nodes()[node].name);
  };
  plan->missing_output = [&steps = plan->steps](uint32_t node, const std::string& output) {
    return steps[node].code
               ? FaultError(Fault::kNodeLibraryMissingOutput, "output '" + output + "'")
               : FaultError(Fault::kInternalError, "the model did not return output '" + output + "'");
  };
  plan->finish_outputs = &RowsToStrings;

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
  return DagServable::Create(std::move(info), std::move(plan), deps);
}

}  // namespace braid
