// Uses: which servables lead to which. Ensembles and pipelines are made of other servables
// (Servable::uses()), and must not lead back to themselves.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "serving/catalog.h"

namespace braid {

// Of a name, the names that it uses.
using UsesOf = std::function<std::vector<std::string>(const std::string& name)>;

// The shortest cycle of uses that begins and ends with `name`: "a -> b -> a". Empty when there is none.
std::string FindCycle(const UsesOf& uses, const std::string& name);

// Whether a request to `from` can come to `to`, through the ensembles and pipelines that `catalog` serves; so
// it does when they are one. What a graph asks is decided when it runs, and cycles through graphs are found
// then (see call_chain.h). Any thread.
bool LeadsTo(const Catalog& catalog, const std::string& from, const std::string& to);

}  // namespace braid
