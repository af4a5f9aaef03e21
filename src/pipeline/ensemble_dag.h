// Translation of an ensemble's configuration to the DAG of its steps.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "config/field_fault.h"
#include "model_config.pb.h"
#include "pipeline/dag.h"
#include "pipeline/dag_plan.h"
#include "serving/servable.h"

namespace braid {

// Checks those parts of an ensemble's configuration that need no models. Returns INVALID_ARGUMENT and the
// field at fault.
FieldFault CheckEnsembleConfig(const inference::ModelConfig& config);

// Returns the version that a step asks for; -1 means the highest that is ready.
int64_t StepVersion(const inference::ModelEnsembling::Step& step);

// Returns the Servable::uses() of an ensemble with this configuration; empty for other configurations.
std::vector<ServableUse> UsesOfEnsemble(const inference::ModelConfig& config);

// Makes the DAG of an ensemble whose configuration is valid. `models` are those of its steps, in order. The
// tensors have the ensemble's names; the inputs and outputs are in the order of `ensemble`. Errors:
// INVALID_ARGUMENT for steps and models that do not fit together; `field`, unless null, is then set to the
// field at fault.
Result<std::unique_ptr<const Dag>> MakeEnsembleDag(
    const ServableInfo& ensemble, const std::vector<std::shared_ptr<const ServableInfo>>& models,
    std::string* field = nullptr);

// Connects the producers and consumers of tensors. Sets the batch changes of `plan`, whose DAG was made from
// `models`. Outputs of the ensemble without labels get the labels of the step's output.
void ConnectTensors(const std::vector<std::shared_ptr<const ServableInfo>>& models, ServableInfo& ensemble,
                    DagPlan& plan);

// Checks the steps that are stateful models of a config.json. They must allow pipelines and run once per
// request, and no tensor of the ensemble may have the name of a sequence tensor. Errors: INVALID_ARGUMENT.
Status CheckEnsembleSequences(const ServableInfo& ensemble, const Dag& dag,
                              const std::vector<std::shared_ptr<const ServableInfo>>& models);

}  // namespace braid
