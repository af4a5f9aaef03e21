// Works around faults of OpenVINO's CPU device in operations on strings. The device sometimes copies string
// tensors byte by byte. Two tensors then own the same characters, and a request with another number of
// strings crashes the process. It also skips operations on empty inputs, which then return the strings of an
// earlier request.
#pragma once

#include <string>

#include <openvino/openvino.hpp>

namespace braid {

// Replaces operations that are known to crash with safe ones: they move the positions of the strings, and a
// Gather then picks the strings. Throws OpenVINO's exceptions. Returns the type and the name of an operation
// on strings that is neither known to be safe nor known to crash; empty if there is none.
std::string GuardStrings(ov::Model& model);

}  // namespace braid
