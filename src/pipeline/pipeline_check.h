// The rules of pipeline definitions, each a function of plain data that adds the faults which it finds. The
// order of CheckDefinition() is that in which the first fault's code is chosen.
#pragma once

#include <cstddef>

#include "pipeline/pipeline_definition.h"
#include "pipeline/pipeline_faults.h"

namespace braid {

void CheckDefinition(const PipelineDefinition& definition, PipelineFaults& faults);

// ---- one rule each ----

void CheckLibraries(const PipelineDefinition& definition, PipelineFaults& faults);
// There is something to answer with, and inputs are listed once.
void CheckEnds(const PipelineDefinition& definition, PipelineFaults& faults);
// A dynamic demultiplexer is the only one.
void CheckDemultiplexers(const PipelineDefinition& definition, PipelineFaults& faults);
void CheckNodeName(const PipelineDefinition& definition, size_t node, PipelineFaults& faults);
void CheckModel(const PipelineDefinition& definition, size_t node, PipelineFaults& faults);
// Used outputs of a demultiplexer can be split into as many shards.
void CheckScatter(const PipelineDefinition& definition, size_t node, PipelineFaults& faults);
void CheckGatherTarget(const PipelineDefinition& definition, size_t node, PipelineFaults& faults);
// Each input has one source, which exists and fits; none is left out.
void CheckInputs(const PipelineDefinition& definition, size_t node, PipelineFaults& faults);
// The same of the pipeline's outputs.
void CheckOutputs(const PipelineDefinition& definition, PipelineFaults& faults);
// Returns whether there is none.
bool CheckCycles(const PipelineDefinition& definition, PipelineFaults& faults);
// The response is reached from every node.
void CheckConnected(const PipelineDefinition& definition, PipelineFaults& faults);
// The innermost open demultiplexer is gathered first, and all paths into a node have the same ones open.
// REQUIRES: no cycles.
void CheckGatherOrder(const PipelineDefinition& definition, PipelineFaults& faults);
// Models that keep state between requests allow it, run once a request, and leave the names by which clients
// know sequences alone. REQUIRES: no cycles, and nothing found by CheckGatherOrder().
void CheckSequences(const PipelineDefinition& definition, PipelineFaults& faults);
// The consumers of an input of the pipeline agree on what it is.
void CheckRequestInputs(const PipelineDefinition& definition, PipelineFaults& faults);

}  // namespace braid
