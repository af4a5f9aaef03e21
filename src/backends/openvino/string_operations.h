// Operations on strings, whose tensors OpenVINO's CPU device copies byte by byte now and then: two tensors then own
// the same characters, and a request that changes their number ends the process. Or it leaves out what has nothing to do,
// and gives the strings of an earlier request.
#pragma once

#include <string>

#include <openvino/openvino.hpp>

namespace braid {

// Puts operations that are known to be safe in the place of those that are known to crash: what they would do to the
// strings is done to their positions, by which the strings are gathered. Throws what OpenVINO throws. Returns
// an operation on strings of which neither is known, with its name; empty: there is none.
std::string GuardStrings(ov::Model& model);

}  // namespace braid
