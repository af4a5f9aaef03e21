// Ensembles: servables that run a DAG of other servables, defined by a model configuration
// (`ensemble_scheduling`).
//
// The sequence parameters of a request go to every step. Steps that are stateful models of a config.json must
// allow it. The ensemble then has sequences as a pipeline over them has (see pipeline.h). The sequences of
// Triton's models work differently: a request goes to a step as soon as its inputs are there. If a sequence
// waited for the steps behind, it could be idle for too long.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "pipeline/dag_servable.h"
#include "serving/servable.h"

namespace braid {

// Returns the text after "ensemble 'e' depends on 'm'" when no version of a model is loaded.
using WhyMissing = std::function<std::string(const std::string& model)>;

// Makes a DagServable and sets whether it is decoupled, which depends on the models. Errors: INVALID_ARGUMENT
// for a configuration that is invalid or does not fit the models; `field`, unless null, is then set to the
// field at fault. REQUIRES: `info.config` is set and describes an ensemble; its models are ready.
Result<std::shared_ptr<Servable>> MakeEnsemble(ServableInfo info, const DagDeps& deps,
                                               const WhyMissing& why_missing = {},
                                               std::string* field = nullptr);

}  // namespace braid
