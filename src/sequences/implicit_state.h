// ImplicitState: tensors that a model returns as outputs and receives again with the next request of the same
// sequence (`state` of the configuration). The server keeps them in between.
//
// A model that keeps an internal state, and returns it as bytes (kSequenceStateTensor), has it as its last
// state. Its shape is [0, 0] until the model has returned one. The model receives it only on an instance that
// does not have it.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "serving/request.h"
#include "serving/servable.h"
#include "tensor/tensor.h"

namespace braid {

class ImplicitState {
 public:
  // REQUIRES: info.config has sequence_batching, and info.initial_states are those of its states.
  explicit ImplicitState(const ServableInfo& info);

  // Adds the model's internal state. Called before all other functions.
  void KeepOwn();

  bool empty() const { return initial_.empty(); }
  // The states of a new sequence, named as the model's inputs.
  const std::vector<Tensor>& initial() const { return initial_; }
  // The specifications of the states, in the same order and with the same names.
  std::vector<StateSpec> specs() const;

  // Requests the states from the model besides the outputs that the client requested. They are appended after
  // the client's.
  void AskFor(InferenceRequest& request) const;
  // Adds the states to a request's inputs; the internal state only with `load`, and if the model has returned
  // one.
  void Append(const std::vector<Tensor>& values, bool load, std::vector<Tensor>& inputs) const;
  // Takes new values from a good response; a state that is not in it keeps its value. Errors: INTERNAL for a
  // tensor of another type or shape than configured, and for a missing internal state, except in the `last`
  // response of the sequence. On an error no value changes.
  Status Take(const InferenceResponse& response, bool last, std::vector<Tensor>& values) const;

 private:
  struct State {
    std::string input_name;
    std::string output_name;
    DataType type;
    Shape shape;  // -1 is any size; with the batch dimension
  };

  const std::string model_name_;
  std::vector<State> states_;  // those of the configuration
  bool keeps_own_ = false;
  std::vector<Tensor> initial_;
  std::vector<std::string> outputs_;  // the outputs of the configuration
};

}  // namespace braid
