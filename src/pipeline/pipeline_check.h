// The rules of pipeline definitions, each a function of plain data that adds the faults which it finds.
#pragma once

#include "pipeline/pipeline_definition.h"
#include "pipeline/pipeline_faults.h"

namespace braid {

// The order of the rules is that in which the first fault's code is chosen.
void CheckDefinition(const PipelineDefinition& definition, PipelineFaults& faults);

}  // namespace braid
