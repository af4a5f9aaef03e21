// Detection of graphs that call themselves.
#pragma once

#include <string_view>

#include "base/status.h"
#include "serving/call_chain.h"

namespace braid {

// Checks whether a request with this call chain (which may be null) may enter graph `graph`. A graph whose
// nodes lead back to it would call itself forever. User code in between can end that, so the search stops at
// user code. With `bounded`, requests to the graph wait for a slot. A request from one of its own runs could
// then wait for that run, so the search covers the whole chain. Errors: INTERNAL, which names the graphs in
// between.
Status CheckCallCircle(const CallChain* chain, std::string_view graph, bool bounded);

}  // namespace braid
