// LoadSet: the models that a load request loads: the requested ones, and the direct and indirect dependencies
// of ensembles.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "repository/dependency_graph.h"
#include "serving/model_control.h"

namespace braid {

struct LoadSet {
  // The models to load, by name.
  std::map<std::string, LoadRequest> requests;
  // The dependencies of these models, and of those dependencies that are not reloaded.
  Dependencies uses;
};

// Questions about single models. They are asked without locks, and may read the disk.
struct LoadQuestions {
  // Returns the dependencies that the model would have if this request loaded it.
  std::function<std::set<std::string>(const LoadRequest& request)> uses;
  // Its dependencies if it stays loaded; nullopt if it is reloaded with its dependents.
  std::function<std::optional<std::set<std::string>>(const std::string& model)> kept;
};

// REQUIRES: no two requests of `wanted` have the same name. Requested models are loaded even if `kept` would
// keep them.
LoadSet CollectLoads(const std::vector<LoadRequest>& wanted, const LoadQuestions& questions);

}  // namespace braid
