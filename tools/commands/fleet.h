// `braid fleet`: several running servers at once. What they serve in one view, Envoy's configuration for a front before them, and reloads of
// a model by one after the other.
#pragma once

namespace braid {

int RunFleet(int argc, const char* const* argv);

}  // namespace braid
