// Pipelines: servables that run an entry of `pipeline_config_list`. Their nodes are models (any servable of
// the catalog) and custom nodes, with demultiplexers and gathers between them.
//
// A pipeline over stateful models, which must allow it, has sequences like each of those models. Clients name
// sequences in the same ways, and responses carry `sequence_id`. The requests of a sequence run one at a
// time, in the order of arrival, over all connections. When a pipeline of the catalog is replaced, the
// requests inside the old one go first. A request that begins or ends a sequence does so in all of the models
// or, when it fails, in none. An end that has reached some of the models, or whose client has disconnected,
// ends the sequence in all. A request in the middle that fails is taken back in the models that can do so
// (see Compensation).
//
// A definition is checked against the models that exist when the pipeline is made. The pipeline is made anew
// when one of them is replaced.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "config/ovms_config.h"
#include "pipeline/custom_node_library.h"
#include "pipeline/custom_node_threads.h"
#include "pipeline/dag_servable.h"
#include "pipeline/pipeline_faults.h"
#include "serving/servable.h"

namespace braid {

// The libraries of a configuration by name, or the errors of opening them.
using CustomNodeLibraries = std::map<std::string, Result<std::shared_ptr<const CustomNodeLibrary>>>;

// Returns the Servable::uses() of a pipeline with this definition.
std::vector<ServableUse> UsesOfPipeline(const OvmsPipelineConfig& config);

// Makes a DagServable with Dialect::kOvms, version 1 and platform "OpenVINO". Checks every rule of a
// definition and reports all its faults. The message has one line for each ("node 'a', input 'x': ..."), the
// code is the first's. `found`, unless null, gets the faults one by one. `threads` outlives the pipeline.
Result<std::shared_ptr<Servable>> MakePipeline(const OvmsPipelineConfig& config,
                                               const CustomNodeLibraries& libraries,
                                               CustomNodeThreads& threads, const DagDeps& deps,
                                               std::vector<PipelineFault>* found = nullptr);

}  // namespace braid
