// Pipelines: servables that run an entry of `pipeline_config_list`, with models (any servable of the catalog)
// and custom nodes as its nodes, demultiplexers and gathers between them.
//
// A pipeline over stateful models, which they have to allow, has sequences as each of them has: its clients
// name them in the same ways, and its responses carry `sequence_id`. The requests of a sequence run one at a
// time, in the order in which they have come, whatever connections they came by; what replaces a pipeline of
// the catalog while requests of that are inside lets them go first. A request that begins or ends a sequence
// does so in all of the models or, when it fails, in none (an end that has reached some of them, or whose
// client has gone, ends the sequence in all). One in the middle that fails has advanced the states of those
// models that have answered it.
//
// A definition is checked against the models that there are when it is made; it is made anew when one of them
// has been replaced.
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

// The libraries of a configuration by name; those that could not be opened with why.
using CustomNodeLibraries = std::map<std::string, Result<std::shared_ptr<const CustomNodeLibrary>>>;

// The Servable::uses() of a pipeline with this definition.
std::vector<ServableUse> UsesOfPipeline(const OvmsPipelineConfig& config);

// A DagServable. Checks every rule of a definition and finds all its faults: the message has one line for
// each ("node 'a', input 'x': ..."), the code is the first's. `threads` outlives the pipeline. The servable
// has Dialect::kOvms, version 1, platform "OpenVINO". `found`, unless null, gets the faults one by one.
Result<std::shared_ptr<Servable>> MakePipeline(const OvmsPipelineConfig& config,
                                               const CustomNodeLibraries& libraries,
                                               CustomNodeThreads& threads, const DagDeps& deps,
                                               std::vector<PipelineFault>* found = nullptr);

}  // namespace braid
