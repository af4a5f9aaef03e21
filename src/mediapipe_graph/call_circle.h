// Graphs that ask themselves.
#pragma once

#include <string_view>

#include "base/status.h"
#include "serving/call_chain.h"

namespace braid {

// Whether a request with this chain (which may be null) may come to graph `graph`. A graph whose nodes lead
// back to it would ask for ever. User code in between can end that, so behind it nothing is looked for; but
// with `bounded`, where requests to the graph wait for a slot, any that comes from one of its runs could
// wait for that run. Errors: INTERNAL, names the graphs between.
Status CheckCallCircle(const CallChain* chain, std::string_view graph, bool bounded);

}  // namespace braid
