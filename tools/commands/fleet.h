// `braid fleet`: works on several running servers: prints their status in one view, writes Envoy's
// configuration for routing to them, and reloads a model on one server after the other.
#pragma once

namespace braid {

int RunFleet(int argc, const char* const* argv);

}  // namespace braid
