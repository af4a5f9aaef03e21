// The states of a model: what it keeps from one inference to the next in its variables, which it reads
// (ReadValue) and assigns (Assign).
//
// An infer request keeps variables of its own, so whatever of them a server wants to keep elsewhere has to be
// copied out after each inference and in before the next. An input and an output, though, are set by pointer.
// So a variable becomes an input, which is what is read, and an output, which is what is assigned. That says
// the same wherever the value that a new sequence begins with is known when the model is loaded, and each
// variable is read before it is assigned, once. A model of which this cannot be said keeps its variables.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <openvino/openvino.hpp>

#include "base/status.h"
#include "tensor/tensor.h"

namespace braid {

struct ModelState {
  std::string name;  // of the variable
  ov::element::Type element;
  ov::PartialShape shape;
};

struct ModelStates {
  // In the order of their names.
  std::vector<ModelState> states;
  // Whether they are the model's last inputs and outputs now, in this order; else they are variables still.
  bool are_ports = false;
  // Of ports: what a new sequence begins with.
  std::vector<Tensor> initial;
};

// Turns each loop over the steps of a series into variables (OpenVINO's LowLatency2), so that the model goes
// on with the next request where it has ended with the last one. Does nothing to a model without such loops;
// may give tensors further names. Throws what OpenVINO throws.
void ApplyLowLatency(const std::shared_ptr<ov::Model>& model);

// The type of the first operation that ApplyLowLatency() is made for; empty when there is none.
std::string FindLoop(const ov::Model& model);

// Takes the states out of a model, or tells of those that stay in it. Changes `model`. Throws what OpenVINO
// throws. Errors: UNSUPPORTED for a state of a type or number of dimensions that cannot be kept; the text
// names it.
Result<ModelStates> TakeStates(ov::Model& model);

// Makes each inference of a model one that begins a sequence: what is read is what a new sequence begins
// with, and nothing is assigned. Returns the variables that are still there, since they cannot be taken out;
// these have to be reset before each inference. `changed` is set when there were any. Changes `model`. Throws
// what OpenVINO throws.
std::vector<std::string> ForgetStates(ov::Model& model, bool& changed);

}  // namespace braid
