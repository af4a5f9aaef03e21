// Ensembles: servables that run a DAG of other servables (`ensemble_scheduling`), named by a model
// configuration.
//
// What a client says of its request's sequence goes to every step. Steps that are stateful models of a
// config.json have to allow it, and give the ensemble sequences as a pipeline over them has (see pipeline.h).
// Those of Triton's models keep their own ways: a request goes to a step as soon as its inputs are there,
// since a sequence of theirs that waited for the steps behind could be idle for too long meanwhile.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "pipeline/dag_servable.h"
#include "serving/servable.h"

namespace braid {

// What stands behind "ensemble 'e' depends on 'm'" when no version of a model is loaded.
using WhyMissing = std::function<std::string(const std::string& model)>;

// A DagServable. `info.config` is set and describes an ensemble; its models are ready. Fills in what follows
// from the models: whether the ensemble is decoupled. Errors: INVALID_ARGUMENT, for a configuration that is
// wrong in itself or does not fit the models; `field`, unless null, is set to the field that is at fault then.
Result<std::shared_ptr<Servable>> MakeEnsemble(ServableInfo info, const DagDeps& deps,
                                               const WhyMissing& why_missing = {},
                                               std::string* field = nullptr);

}  // namespace braid
