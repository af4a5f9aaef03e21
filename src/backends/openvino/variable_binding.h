// VariableBinding: states that an infer request has in variables of its own, since they could not be made
// inputs and outputs (see model_states.h).
//
// They are copied in before an inference and out after it. What an inference has left in them, also one that
// has failed, is never seen by the next: each sets all of them, or begins with none set.
#pragma once

#include <memory>
#include <vector>

#include <openvino/openvino.hpp>

#include "backends/openvino/compiled_facts.h"
#include "backends/openvino/state_pool.h"
#include "base/status.h"
#include "scheduling/instance.h"
#include "tensor/tensor.h"

namespace braid {

class VariableBinding {
 public:
  // `facts`, `request` and `pools`, which are those of the variables, outlive the binding. One thread at a
  // time.
  VariableBinding(const CompiledFacts& facts, const std::vector<std::shared_ptr<StatePool>>& pools,
                  ov::InferRequest& request)
      : facts_(facts), pools_(pools), request_(request) {}

  // Once, before anything else. Throws what OpenVINO throws. Errors: UNSUPPORTED when the device does not let
  // one of the variables be set.
  Status Find();

  // Before an inference: the states of the one request of `execution`, or what a new sequence begins with.
  // Throws what OpenVINO throws. Errors: a state of another type or size than the model's.
  Status Prepare(const Execution& execution);
  // After it: adds the states to the outputs. Throws what OpenVINO throws.
  void Collect(std::vector<Tensor>& outputs);

 private:
  Status Set(size_t index, const Tensor& value);

  const CompiledFacts& facts_;
  const std::vector<std::shared_ptr<StatePool>>& pools_;
  ov::InferRequest& request_;
  std::vector<ov::VariableState> variables_;  // in the order of facts_.variables
};

}  // namespace braid
