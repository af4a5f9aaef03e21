// Adds a check that OpenVINO's CPU device leaves out.
#pragma once

#include <openvino/openvino.hpp>

namespace braid {

// Guards products of a tensor and a constant matrix: the tensor needs as many columns as the matrix has rows.
// If the number of columns is not known at compile time, the device never checks it, and reads beyond a
// tensor that has too few. So this puts a reshape in front, which is free and fails on a wrong number. Throws
// OpenVINO's exceptions.
void GuardMatrixProducts(ov::Model& model);

}  // namespace braid
