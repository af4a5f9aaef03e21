#include "pipeline/ensemble_dag.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "serving/sequence_inputs.h"

namespace braid {
namespace {

using inference::ModelConfig;
using Step = inference::ModelEnsembling::Step;

constexpr std::string_view kPlatform = "ensemble";
// A larger number of steps is most likely a mistake.
constexpr int kMostSteps = 10000;

Status Invalid(const std::string& ensemble, const std::string& text) {
  return InvalidArgumentError("in ensemble '" + ensemble + "', " + text);
}

std::string StepName(const Step& step, size_t index) {
  return "'" + step.model_name() + "' (number " + std::to_string(index + 1) + ")";
}

// A use of a tensor: the place, and the type and shape that it has there.
struct Sighting {
  std::string where;
  DataType type;
  const Shape* shape;
  bool batches;  // its first dimension is the batch's
};

// Returns the shape that the steps see for an input or output of the ensemble itself.
const Shape& Inside(const TensorSpec& spec) { return spec.model_shape ? *spec.model_shape : spec.shape; }

// The tensors of an ensemble as their producers and consumers see them.
class TensorTable {
 public:
  // `shape` is the tensor's shape between the steps; it outlives the table. `servable` has the tensor.
  // Errors: a text that describes the difference between two uses.
  Status Add(const std::string& tensor, std::string where, const TensorSpec& spec, const Shape& shape,
             const ServableInfo& servable) {
    const Sighting here{std::move(where), spec.type, &shape, servable.max_batch_size > 0};
    std::vector<Sighting>& seen = seen_[tensor];
    for (const Sighting& other : seen) {
      if (other.type != spec.type) {
        return InvalidArgumentError("tensor '" + tensor + "' has data type " +
                                    std::string(ConfigName(other.type)) + " as " + other.where + " but " +
                                    std::string(ConfigName(spec.type)) + " as " + here.where);
      }
      if (!Compatible(other, here)) {
        return InvalidArgumentError("tensor '" + tensor + "' has shape " + ShapeToString(*other.shape) +
                                    " as " + other.where + " but " + ShapeToString(shape) + " as " +
                                    here.where + ", batch dimensions included");
      }
    }
    seen.push_back(here);
    return OkStatus();
  }

 private:
  // Compares the shapes with and without their batch dimensions.
  static bool Compatible(const Sighting& a, const Sighting& b) {
    const auto equal = [&](bool without) {
      return std::equal(a.shape->begin() + (without && a.batches), a.shape->end(),
                        b.shape->begin() + (without && b.batches), b.shape->end(),
                        [](int64_t x, int64_t y) { return x == y || x < 0 || y < 0; });
    };
    return equal(false) || equal(true);
  }

  std::unordered_map<std::string, std::vector<Sighting>> seen_;
};

// The fields are unordered maps; sorting keeps texts and runs the same from one start to the next.
std::map<std::string, std::string> Sorted(const google::protobuf::Map<std::string, std::string>& map) {
  return {map.begin(), map.end()};
}

// The ports of one step, checked against its model.
class StepReader {
 public:
  StepReader(const Step& step, size_t index, const ServableInfo& model, TensorTable& tensors,
             std::string& field)
      : step_(step),
        name_(StepName(step, index)),
        place_(FieldAt("ensemble_scheduling.step", static_cast<int>(index))),
        model_(model),
        tensors_(tensors),
        field_(field) {}

  Result<NodeSpec> Read() {
    NodeSpec node;
    node.name = name_;
    node.many = model_.decoupled;
    for (const auto& [input, tensor] : Sorted(step_.input_map())) {
      field_ = place_ + ".input_map[" + input + "]";
      const TensorSpec* spec = model_.FindInput(input);
      if (spec == nullptr) return Unknown("input_map", "input", input);
      BRAID_RETURN_IF_ERROR(
          tensors_.Add(tensor, "input '" + input + "' of step " + name_, *spec, spec->shape, model_));
      node.inputs.push_back({input, tensor, spec->optional});
    }
    for (const TensorSpec& spec : model_.inputs) {
      if (spec.optional || step_.input_map().contains(spec.name)) continue;
      field_ = place_ + ".input_map";
      return InvalidArgumentError("the 'input_map' of step " + name_ + " lacks input '" + spec.name +
                                  "', which model '" + model_.name + "' needs");
    }
    for (const auto& [output, tensor] : Sorted(step_.output_map())) {
      field_ = place_ + ".output_map[" + output + "]";
      const TensorSpec* spec = model_.FindOutput(output);
      if (spec == nullptr) return Unknown("output_map", "output", output);
      BRAID_RETURN_IF_ERROR(
          tensors_.Add(tensor, "output '" + output + "' of step " + name_, *spec, spec->shape, model_));
      node.outputs.push_back({output, tensor, false});
    }
    return node;
  }

 private:
  Status Unknown(const std::string& map, const std::string& kind, const std::string& name) const {
    return InvalidArgumentError("the '" + map + "' of step " + name_ + " names " + kind + " '" + name +
                                "', which model '" + model_.name + "' does not have");
  }

  const Step& step_;
  const std::string name_;
  const std::string place_;
  const ServableInfo& model_;
  TensorTable& tensors_;
  std::string& field_;  // the field being checked
};

Result<std::unique_ptr<const Dag>> MakeDag(const ServableInfo& ensemble,
                                           const std::vector<std::shared_ptr<const ServableInfo>>& models,
                                           std::string& field) {
  TensorTable tensors;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  for (const TensorSpec& spec : ensemble.inputs) {
    field = FieldAt("input", static_cast<int>(inputs.size()));
    BRAID_RETURN_IF_ERROR(tensors.Add(spec.name, "input of the ensemble", spec, Inside(spec), ensemble));
    inputs.push_back(spec.name);
  }
  for (const TensorSpec& spec : ensemble.outputs) {
    field = FieldAt("output", static_cast<int>(outputs.size()));
    BRAID_RETURN_IF_ERROR(tensors.Add(spec.name, "output of the ensemble", spec, Inside(spec), ensemble));
    outputs.push_back(spec.name);
  }
  std::vector<NodeSpec> nodes;
  const auto& steps = ensemble.config->ensemble_scheduling().step();
  for (size_t i = 0; i < models.size(); ++i) {
    BRAID_ASSIGN_OR_RETURN(NodeSpec node,
                           StepReader(steps[static_cast<int>(i)], i, *models[i], tensors, field).Read());
    nodes.push_back(std::move(node));
  }
  field = "ensemble_scheduling";
  BRAID_ASSIGN_OR_RETURN(auto dag, Dag::Build(inputs, outputs, nodes));
  const auto unused = [&dag = *dag](uint32_t tensor) {
    return dag.tensors()[tensor].consumers.empty() &&
           std::ranges::find(dag.outputs(), tensor) == dag.outputs().end();
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!unused(dag->inputs()[i])) continue;
    field = FieldAt("input", static_cast<int>(i));
    return InvalidArgumentError("input '" + inputs[i] + "' is not used by any step");
  }
  for (size_t i = 0; i < models.size(); ++i) {
    const std::string place = FieldAt("ensemble_scheduling.step", static_cast<int>(i));
    for (const Dag::Port& port : dag->nodes()[i].outputs) {
      if (!unused(port.tensor)) continue;
      field = place + ".output_map[" + port.name + "]";
      return InvalidArgumentError(
          "tensor '" + dag->tensors()[port.tensor].name + "' of step " + nodes[i].name +
          " is not an output of the ensemble, and no step uses it; leave it out of the "
          "'output_map'");
    }
    const int64_t most = models[i]->max_batch_size;
    if (most == 0 || ensemble.max_batch_size <= most) continue;
    field = "max_batch_size";
    return InvalidArgumentError("'max_batch_size' is " + std::to_string(ensemble.max_batch_size) +
                                ", but step " + nodes[i].name + " takes " + std::to_string(most) +
                                " at most");
  }
  return dag;
}

}  // namespace

FieldFault CheckEnsembleConfig(const ModelConfig& config) {
  const std::string& name = config.name();
  const auto wrong = [&name](std::string field, const std::string& text) {
    return FieldFault(Invalid(name, text), std::move(field));
  };
  if (!config.has_ensemble_scheduling()) {
    return {InvalidArgumentError("ensemble scheduling must be set for ensemble '" + name +
                                 "' whose platform is 'ensemble'"),
            "platform"};
  }
  if (!config.backend().empty() || (!config.platform().empty() && config.platform() != kPlatform)) {
    return {InvalidArgumentError("ensemble scheduling cannot be set for model '" + name +
                                 "' whose platform is not 'ensemble'"),
            config.backend().empty() ? "platform" : "backend"};
  }
  if (config.instance_group_size() > 0) {
    return {InvalidArgumentError("'instance_group' cannot be specified for ensemble '" + name + "'"),
            "instance_group"};
  }
  if (config.model_warmup_size() > 0) {
    return {InvalidArgumentError("'model_warmup' cannot be specified for ensemble '" + name +
                                 "'; specify it for its models"),
            "model_warmup"};
  }
  if (config.has_optimization()) {
    return {InvalidArgumentError("'optimization' cannot be specified for ensemble '" + name +
                                 "'; specify it for its models"),
            "optimization"};
  }
  if (config.output().empty()) return wrong("output", "at least one output must be specified");
  const auto& steps = config.ensemble_scheduling().step();
  if (steps.empty()) return wrong("ensemble_scheduling.step", "at least one step must be specified");
  if (steps.size() > kMostSteps) {
    return wrong("ensemble_scheduling.step", "there are " + std::to_string(steps.size()) +
                                                 " steps, at most " + std::to_string(kMostSteps) +
                                                 " are possible");
  }
  for (int i = 0; i < steps.size(); ++i) {
    const std::string who = "step " + StepName(steps[i], static_cast<size_t>(i));
    const std::string field = FieldAt("ensemble_scheduling.step", i);
    if (steps[i].model_name().empty()) {
      return wrong(field + ".model_name", who + " must specify 'model_name'");
    }
    if (!steps[i].model_namespace().empty()) {
      return wrong(field + ".model_namespace",
                   "'model_namespace' of " + who + " is not supported; leave it empty");
    }
    for (const auto* map : {&steps[i].input_map(), &steps[i].output_map()}) {
      const std::string which = map == &steps[i].input_map() ? "input_map" : "output_map";
      if (map->empty()) return wrong(field, who + " must specify '" + which + "'");
      for (const auto& [port, tensor] : *map) {
        if (port.empty() || tensor.empty())
          return wrong(field + "." + which + "[" + port + "]", who + " maps an empty name");
      }
    }
  }
  return {};
}

void ConnectTensors(const std::vector<std::shared_ptr<const ServableInfo>>& models, ServableInfo& ensemble,
                    DagPlan& plan) {
  struct Origin {
    bool batches = false;
    const TensorSpec* output = nullptr;  // of a step
  };
  const Dag& dag = *plan.dag;
  std::vector<Origin> origins(dag.tensors().size());
  for (const uint32_t input : dag.inputs()) origins[input] = {ensemble.max_batch_size > 0, nullptr};
  for (size_t i = 0; i < models.size(); ++i) {
    for (const Dag::Port& port : dag.nodes()[i].outputs) {
      origins[port.tensor] = {models[i]->max_batch_size > 0, models[i]->FindOutput(port.name)};
    }
  }
  const auto connect = [&](uint32_t tensor, const std::string& name, const Shape& shape, bool batches,
                           std::vector<BatchChange>& changes) {
    if (origins[tensor].batches == batches) return;
    Shape without(shape.begin() + batches, shape.end());
    Shape with{1};
    with.insert(with.end(), without.begin(), without.end());
    if (batches) std::swap(without, with);
    changes.push_back({name, std::move(with), std::move(without)});
  };
  for (size_t i = 0; i < models.size(); ++i) {
    for (const Dag::Port& port : dag.nodes()[i].inputs) {
      connect(port.tensor, port.name, models[i]->FindInput(port.name)->shape, models[i]->max_batch_size > 0,
              plan.steps[i].batch_changes);
    }
  }
  for (size_t i = 0; i < ensemble.outputs.size(); ++i) {
    TensorSpec& spec = ensemble.outputs[i];
    const uint32_t tensor = dag.outputs()[i];
    connect(tensor, spec.name, Inside(spec), ensemble.max_batch_size > 0, plan.batch_changes);
    if (spec.labels.empty() && origins[tensor].output != nullptr)
      spec.labels = origins[tensor].output->labels;
  }
}

Status CheckEnsembleSequences(const ServableInfo& ensemble, const Dag& dag,
                              const std::vector<std::shared_ptr<const ServableInfo>>& models) {
  if (!ensemble.stateful) return OkStatus();
  std::set<std::pair<std::string_view, int64_t>> seen;
  for (size_t i = 0; i < models.size(); ++i) {
    const ServableInfo& model = *models[i];
    if (!model.stateful) continue;
    const Dag::Node& step = dag.nodes()[i];
    const auto refuse = [&](const std::string& why) {
      return Invalid(ensemble.name, "step " + step.name + " is a stateful model" + why);
    };
    if (!model.stateful->allow_in_pipelines) {
      return refuse(" (\"allow_in_pipelines\": true in the model's entry allows it)");
    }
    if (step.scope != Dag::kRoot) {
      return refuse(
          " and would run once for each response of a decoupled step; a request can run it only once");
    }
    if (!seen.emplace(model.name, model.version).second) {
      return refuse(" that another step already uses; a request can run it only once");
    }
  }
  for (const auto* specs : {&ensemble.inputs, &ensemble.outputs}) {
    for (const TensorSpec& spec : *specs) {
      if (spec.name != kSequenceIdInput && spec.name != kSequenceControlInput) continue;
      return Invalid(ensemble.name, "the tensor '" + spec.name +
                                        "' has a name reserved for the sequences of stateful models");
    }
  }
  return OkStatus();
}

int64_t StepVersion(const Step& step) { return step.model_version() > 0 ? step.model_version() : -1; }

std::vector<ServableUse> UsesOfEnsemble(const inference::ModelConfig& config) {
  std::vector<ServableUse> uses;
  for (const Step& step : config.ensemble_scheduling().step()) {
    uses.push_back({step.model_name(), StepVersion(step)});
  }
  return uses;
}

Result<std::unique_ptr<const Dag>> MakeEnsembleDag(
    const ServableInfo& ensemble, const std::vector<std::shared_ptr<const ServableInfo>>& models,
    std::string* field) {
  std::string looked_at;
  auto dag = MakeDag(ensemble, models, field != nullptr ? *field : looked_at);
  if (!dag.ok()) return dag.status().WithPrefix("in ensemble '" + ensemble.name + "', ");
  return dag;
}

}  // namespace braid
