// The filter in Lua that `braid fleet envoy --lift-sequence-ids` gives Envoy.
#pragma once

#include <string>
#include <vector>

namespace braid::fleet {

// It reads the sequence of a request to one of `models` out of its body, where the request has no header braid-sequence-id, and writes it
// there. A request in whose body it finds nothing goes on as it came. Braid itself compares header and body, so that what is read wrongly is
// refused and not answered by another sequence.
std::string LiftSequenceIdScript(const std::vector<std::string>& models);

}  // namespace braid::fleet
