// A fault of OpenVINO's CPU device that has to be kept away from.
#pragma once

#include <openvino/openvino.hpp>

namespace braid {

// Where an output is an input as it came, the device takes the memory of both for one: it reads what lies in
// the output's before the inference, and writes that to the input's. So such an output is put behind two
// operations that change nothing, which has the device copy it. Throws what OpenVINO throws.
void GuardPassedInputs(ov::Model& model);

}  // namespace braid
