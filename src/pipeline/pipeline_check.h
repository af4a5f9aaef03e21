// The rules of pipeline definitions. Each rule is a function of plain data that adds its faults.
#pragma once

#include "pipeline/pipeline_definition.h"
#include "pipeline/pipeline_faults.h"

namespace braid {

// Applies all rules. The order of the rules decides which fault comes first and gives the code.
void CheckDefinition(const PipelineDefinition& definition, PipelineFaults& faults);

}  // namespace braid
