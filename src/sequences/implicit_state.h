// Implicit state: tensors that a model gives back as outputs and gets again with the next request of the same
// sequence (`state` of the configuration). The server keeps them in between.
//
// A model that keeps a state to itself, and gives it as bytes (kSequenceStateTensor), has that as its last one: of
// shape [0, 0] as long as it has given none. It gets it back only where it has not got it.
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

  // The model gives what it keeps itself. Before anything else is asked.
  void KeepOwn();

  bool empty() const { return initial_.empty(); }
  // What a new sequence begins with, named as the model's inputs are.
  const std::vector<Tensor>& initial() const { return initial_; }
  // What their values are, in the same order and by the same names.
  std::vector<StateSpec> specs() const;

  // Makes the model send the states, whatever outputs the client has asked for. What is added stands behind
  // the client's own.
  void AskFor(InferenceRequest& request) const;
  // Adds the states to a request's inputs; the model's own if it is to `load` it and has given one.
  void Append(const std::vector<Tensor>& values, bool load, std::vector<Tensor>& inputs) const;
  // Takes new values out of a good response; a state that is not in it keeps its value. Errors: INTERNAL for
  // a tensor of another type or shape than the configuration says, and for a response without the model's own state,
  // unless it is the `last` of its sequence; no value has changed then.
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
  std::vector<std::string> outputs_;  // those of the configuration
};

}  // namespace braid
