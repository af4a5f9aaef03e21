#include "pipeline/ensemble.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "config/model_config.h"
#include "model_config.pb.h"
#include "pipeline/dag_servable.h"
#include "pipeline/ensemble_dag.h"
#include "serving/uses.h"

namespace braid {
namespace {

constexpr std::string_view kNoVersion = "which has no loaded version.";

// The sequences of a step are also sequences of the ensemble's clients.
void AddSequences(const ServableInfo& step, ServableInfo& ensemble) {
  if (!ensemble.stateful) {
    ensemble.stateful = StatefulSpec{.states = {}, .max_sequences = UINT32_MAX, .allow_in_pipelines = true};
  }
  if (!step.stateful) return;
  uint32_t& most = ensemble.stateful->max_sequences;
  most = std::min(most, step.stateful->max_sequences);
}

// Lets tensors on a GPU pass through an ensemble. Inputs pass if all steps that take one accept it there;
// outputs pass as each request allows.
void AddDevices(const Dag& dag, const std::vector<std::shared_ptr<const ServableInfo>>& steps,
                ServableInfo& ensemble) {
  if (ensemble.config->response_cache().enable()) return;  // the cache must read the responses
  const auto takes = [&](uint32_t step) { return steps[step]->device_inputs; };
  ensemble.device_inputs = !ensemble.stateful && std::ranges::all_of(dag.inputs(), [&](uint32_t input) {
    return std::ranges::find(dag.outputs(), input) == dag.outputs().end() &&
           std::ranges::all_of(dag.tensors()[input].consumers, takes);
  });
  ensemble.device_outputs = std::ranges::any_of(steps, [](const auto& step) { return step->device_outputs; });
}

}  // namespace

Result<std::shared_ptr<Servable>> MakeEnsemble(ServableInfo info, const DagDeps& deps,
                                               const WhyMissing& why_missing, std::string* field) {
  BRAID_CHECK(info.config != nullptr);
  const auto blame = [field](std::string name) {
    if (field != nullptr) *field = std::move(name);
  };
  const Catalog& catalog = deps.catalog;
  auto config = std::make_shared<inference::ModelConfig>(*info.config);
  if (FieldFault fault = CheckEnsembleConfig(*config); !fault.ok()) {
    blame(std::move(fault.field));
    return fault.status;
  }
  info.kind = ServableKind::kEnsemble;
  info.platform = "ensemble";
  info.instance_count = 0;
  config->set_platform("ensemble");

  auto plan = std::make_shared<DagPlan>();  // shared by the servable and its sessions
  plan->max_runs_per_node = config->ensemble_scheduling().max_inflight_requests();
  plan->needs = "ensemble '" + info.name + "' depends on '";
  plan->no_version = std::string("' ").append(kNoVersion);
  plan->not_ready = "' which is not ready: ";
  plan->unavailable = &UnavailableError;
  plan->fault = [name = info.name](const Status& status, uint32_t) {
    return status.WithPrefix("in ensemble '" + name + "', ");
  };
  std::vector<std::shared_ptr<const ServableInfo>> models;
  DagStructure::Words words;
  for (int i = 0; i < config->ensemble_scheduling().step_size(); ++i) {
    const auto& step = config->ensemble_scheduling().step(i);
    const std::string place = FieldAt("ensemble_scheduling.step", i);
    const std::string& name = step.model_name();
    const std::string depends = plan->needs + name + "' ";
    DagStep& made = plan->steps.emplace_back();
    made.servable = std::make_unique<ServableReference>(catalog, name, StepVersion(step));
    for (const auto& [output, tensor] : step.output_map()) made.outputs.push_back(output);
    std::sort(made.outputs.begin(), made.outputs.end());
    auto model = made.servable->Get();
    if (!model.ok()) {
      blame(place + ".model_name");
      std::string tail = why_missing ? why_missing(name) : std::string(kNoVersion);
      if (StepVersion(step) > 0 && catalog.Find(name, -1).ok()) {
        blame(place + ".model_version");
        tail = "whose required version " + std::to_string(StepVersion(step)) + " is not loaded.";
      }
      return InvalidArgumentError(depends + tail);
    }
    if (LeadsTo(catalog, name, info.name)) {
      blame(place + ".model_name");
      return InvalidArgumentError(depends + "which leads back to it.");
    }
    info.decoupled = info.decoupled || (*model)->info().decoupled;
    if ((*model)->has_sequences()) AddSequences((*model)->info(), info);
    info.makes_calls = info.makes_calls || (*model)->info().makes_calls;
    words.nodes.push_back({.kind = StructureNodeKind::kModel,
                           .name = name,
                           .runs = name,
                           .version = StepVersion(step),
                           .note = (*model)->info().decoupled ? "decoupled" : ""});
    models.emplace_back(*model, &(*model)->info());
  }
  if (info.decoupled) config->mutable_model_transaction_policy()->set_decoupled(true);
  if (FieldFault fault = FindFileFault(*config); !fault.ok()) {  // checks that depend on `decoupled`
    blame(std::move(fault.field));
    return fault.status;
  }
  info.config = std::move(config);
  BRAID_ASSIGN_OR_RETURN(plan->dag, MakeEnsembleDag(info, models, field));
  AddDevices(*plan->dag, models, info);
  ConnectTensors(models, info, *plan);
  plan->structure = std::make_unique<DagStructure>(*plan->dag, std::move(words));
  blame("ensemble_scheduling");
  BRAID_RETURN_IF_ERROR(CheckEnsembleSequences(info, *plan->dag, models));
  return DagServable::Create(std::move(info), std::move(plan), deps);
}

}  // namespace braid
