// A check that OpenVINO's CPU device leaves out.
#pragma once

#include <openvino/openvino.hpp>

namespace braid {

// A product of a tensor and a matrix of constants needs as many columns of the one as the other has rows.
// Where the tensor's columns are not known when the model is compiled, the device does not look at them
// again, and reads past a tensor that has too few. So such a tensor is put through a reshape, which costs
// nothing and fails when the number is not right. Throws what OpenVINO throws.
void GuardMatrixProducts(ov::Model& model);

}  // namespace braid
