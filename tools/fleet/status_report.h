// The output of `braid fleet status`.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "fleet/replica.h"

namespace braid::fleet {

// Returns a table of replicas, a table of models, and the differences.
std::string StatusText(const std::vector<Replica>& replicas);
Json StatusJson(const std::vector<Replica>& replicas);

}  // namespace braid::fleet
