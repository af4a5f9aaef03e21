// LoadSet: which models a load request brings with it. An ensemble is loaded with the models that it uses,
// and these with theirs.
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
  // What is to be loaded, by name.
  std::map<std::string, LoadRequest> requests;
  // Who uses which, of these and of what they use that stays as it is.
  Dependencies uses;
};

// Answers about single models; called without locks, and may read the disk.
struct LoadQuestions {
  // What the model would use if it were loaded by this request.
  std::function<std::set<std::string>(const LoadRequest& request)> uses;
  // What the model uses, when others take it as it is; nothing when it is loaded with who uses it.
  std::function<std::optional<std::set<std::string>>(const std::string& model)> kept;
};

// Of `wanted`, no two of one name. What was asked for is loaded whatever `kept` says of it.
LoadSet CollectLoads(const std::vector<LoadRequest>& wanted, const LoadQuestions& questions);

}  // namespace braid
