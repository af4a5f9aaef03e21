// By which names texts about a graph speak of its nodes.
#pragma once

#include <string>
#include <vector>

#include "mediapipe/calculator.pb.h"

namespace braid::graph {

// One for each node: its own name, else its calculator's. A node that is named as another one gets a number; both do, so
// that neither seems to be the only one.
std::vector<std::string> NodeNames(const ::mediapipe::CalculatorGraphConfig& config);

}  // namespace braid::graph
