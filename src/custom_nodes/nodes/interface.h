// The functions that the source of each built-in node defines. interface.cc is part of each library, and calls
// them.
#pragma once

#include <memory>

#include "custom_nodes/node.h"
#include "custom_nodes/params.h"

namespace braid::custom_nodes {

extern const char* const kNodeName;

// Errors: std::invalid_argument for a param.
std::unique_ptr<Node> MakeNode(Params& params);

}  // namespace braid::custom_nodes
