// LeadsTo: whether requests to one servable become requests to another, through pipelines and ensembles.
//
// Each of them is looked at when it is made, so that no reload makes a circle of them. Graphs and user code
// choose whom they ask when they run; circles through them are found then (see call_chain.h).
#pragma once

#include <string>

#include "serving/catalog.h"

namespace braid {

// Whether a request to `from` can come to `to`; so it does when they are one. Any thread.
bool LeadsTo(const Catalog& catalog, const std::string& from, const std::string& to);

}  // namespace braid
