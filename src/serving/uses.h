// Dependencies between servables. Ensembles and pipelines depend on other servables (Servable::uses()) and
// must not form cycles.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "serving/catalog.h"

namespace braid {

// Returns the names of the dependencies of a name.
using UsesOf = std::function<std::vector<std::string>(const std::string& name)>;

// Returns the shortest cycle of dependencies through `name`: "a -> b -> a". Empty if there is none.
std::string FindCycle(const UsesOf& uses, const std::string& name);

// Returns whether a request to `from` can reach `to` through the ensembles and pipelines that `catalog`
// serves; true if both are the same. Graphs choose their calls at run time, so their cycles are found then
// (see call_chain.h). Any thread.
bool LeadsTo(const Catalog& catalog, const std::string& from, const std::string& to);

}  // namespace braid
