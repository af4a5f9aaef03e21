// From the configuration of an ensemble to the DAG of its steps.
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

// What can be judged of an ensemble's configuration without its models: INVALID_ARGUMENT, and which field it is.
FieldFault CheckEnsembleConfig(const inference::ModelConfig& config);

// The version that a step asks for; -1 is the highest that is ready.
int64_t StepVersion(const inference::ModelEnsembling::Step& step);

// The Servable::uses() of an ensemble with this configuration; nothing for what is no ensemble.
std::vector<ServableUse> UsesOfEnsemble(const inference::ModelConfig& config);

// The DAG of an ensemble whose configuration is right in itself. `models` are those of its steps, in order.
// Its tensors bear the names of the ensemble; its inputs and outputs are in the order of `ensemble`. Errors:
// INVALID_ARGUMENT for steps and models that do not fit together; `field`, unless null, is set to the field that is at
// fault then.
Result<std::unique_ptr<const Dag>> MakeEnsembleDag(
    const ServableInfo& ensemble, const std::vector<std::shared_ptr<const ServableInfo>>& models,
    std::string* field = nullptr);

// What follows from who makes a tensor and who takes it: the batch changes of `plan`, whose DAG is of these, and the labels
// of outputs of the ensemble that have none of their own, which are those of the step's output.
void ConnectTensors(const std::vector<std::shared_ptr<const ServableInfo>>& models, ServableInfo& ensemble,
                    DagPlan& plan);

// Steps that are stateful models of a config.json allow it, run once a request, and leave the names by which
// clients know sequences alone. Errors: INVALID_ARGUMENT.
Status CheckEnsembleSequences(const ServableInfo& ensemble, const Dag& dag,
                              const std::vector<std::shared_ptr<const ServableInfo>>& models);

}  // namespace braid
