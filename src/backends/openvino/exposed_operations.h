// Finds operations that trust positions or counts in their inputs: if a request gives values outside the
// tensor, OpenVINO's CPU device reads or writes beyond its memory.
#pragma once

#include <string>

#include <openvino/openvino.hpp>

namespace braid {

// Returns the type and the name of such an operation whose positions come from a request; empty if there is
// none. Positions that the model computes from shapes, or by searching values, are always in range.
std::string FindExposed(const ov::Model& model);

}  // namespace braid
