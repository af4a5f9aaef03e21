// Which models use which: ensembles use the models of their steps. Pure functions; any thread.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "model_config.pb.h"

namespace braid {

// By model, the models it uses.
using Dependencies = std::map<std::string, std::set<std::string>>;

std::set<std::string> ModelsUsedBy(const inference::ModelConfig& config);

// The models in groups, such that each uses models of earlier groups alone; those that use each other in a
// circle, and those that use them, are the last group. Names that are not keys count as there already.
std::vector<std::vector<std::string>> LoadOrder(const Dependencies& uses);

// "a -> b -> a" when `model` uses itself, be it by others; else empty.
std::string FindCycle(const Dependencies& uses, const std::string& model);

// What `model` uses, directly or not, without itself.
std::set<std::string> UsedBy(const Dependencies& uses, const std::string& model);

}  // namespace braid
