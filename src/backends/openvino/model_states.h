// The states of a model: variables that keep their values between inferences. The model reads them with
// ReadValue and writes them with Assign.
//
// Each infer request has its own variables. To keep their values elsewhere, the server would have to copy
// them out after each inference, and in before the next. Inputs and outputs are set by pointer instead. So a
// variable is replaced by an input (the value read) and an output (the value assigned). The result is the
// same if the initial value is known at load time, and the variable is assigned once, after it is read. Any
// other model keeps its variables.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <openvino/openvino.hpp>

#include "base/status.h"
#include "tensor/tensor.h"

namespace braid {

struct ModelState {
  std::string name;  // the variable's name
  ov::element::Type element;
  ov::PartialShape shape;
};

struct ModelStates {
  // Sorted by name.
  std::vector<ModelState> states;
  // Whether the states are the model's last inputs and outputs, in this order; if not, they are still
  // variables.
  bool are_ports = false;
  // Of ports: the initial values in a new sequence.
  std::vector<Tensor> initial;
};

// Turns each loop over the steps of a series into variables (OpenVINO's LowLatency2). The model then
// continues with each request where the last one ended. Does nothing to a model without such loops; may give
// tensors further names. Throws OpenVINO's exceptions.
void ApplyLowLatency(const std::shared_ptr<ov::Model>& model);

// Returns the type of the first operation that ApplyLowLatency() would replace; empty when there is none.
std::string FindLoop(const ov::Model& model);

// Takes the states out of `model`, or describes those that stay in it. Throws OpenVINO's exceptions. Errors:
// UNSUPPORTED for a state whose type or number of dimensions cannot be kept, or that is used within a loop or
// a branch; the text names the state.
Result<ModelStates> TakeStates(ov::Model& model);

// Makes each inference of `model` begin a sequence: reads return initial values, and assignments are dropped.
// Returns the variables that could not be removed; reset these before each inference. Sets `changed` if the
// model had variables. Throws OpenVINO's exceptions.
std::vector<std::string> ForgetStates(ov::Model& model, bool& changed);

}  // namespace braid
