// Works around a fault of OpenVINO's CPU device.
#pragma once

#include <openvino/openvino.hpp>

namespace braid {

// Guards outputs that are an input unchanged. The device treats the memory of both as one: it reads the
// output's memory before the inference, and writes to the input's. This puts two operations without effect in
// front of such outputs, which forces a copy. Throws OpenVINO's exceptions.
void GuardPassedInputs(ov::Model& model);

}  // namespace braid
