// Operations that take positions or counts for granted: OpenVINO's CPU device reads or writes beyond a tensor where
// a request gives others than the tensor has.
#pragma once

#include <string>

#include <openvino/openvino.hpp>

namespace braid {

// Such an operation whose positions come from a request, with its name; empty: there is none. Those that the model
// works out of shapes, or by looking for values, are good ones.
std::string FindExposed(const ov::Model& model);

}  // namespace braid
