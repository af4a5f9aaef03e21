// The calculators that OpenVINO Model Server adds to MediaPipe's.
#pragma once

#include "graph/registry.h"

namespace braid {

void AddOvmsCalculators(graph::CalculatorRegistry& registry);

}  // namespace braid
