// The names of a graph's nodes in texts.
#pragma once

#include <string>
#include <vector>

#include "mediapipe/calculator.pb.h"

namespace braid::graph {

// Returns a name for each node: its own, else its calculator's. Nodes with the same name all get numbers, so
// that none of them seems to be the only one.
std::vector<std::string> NodeNames(const ::mediapipe::CalculatorGraphConfig& config);

}  // namespace braid::graph
