// What `braid fleet status` prints of replicas that were looked at.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "fleet/replica.h"

namespace braid::fleet {

// A table of replicas, one of models, and what differs.
std::string StatusText(const std::vector<Replica>& replicas);
Json StatusJson(const std::vector<Replica>& replicas);

}  // namespace braid::fleet
