// VariableBinding: states that stay in the variables of an infer request, because they could not become
// inputs and outputs (see model_states.h).
//
// The binding copies them in before an inference, and out after it. Each inference sets all variables, or
// resets them. So it never sees leftover values, not even those of a failed inference.
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
  // `facts`, `request` and the variables' `pools` outlive the binding. One thread at a time.
  VariableBinding(const CompiledFacts& facts, const std::vector<std::shared_ptr<StatePool>>& pools,
                  ov::InferRequest& request)
      : facts_(facts), pools_(pools), request_(request) {}

  // Finds the variables in the infer request. Throws OpenVINO's exceptions. Errors: UNSUPPORTED when the
  // device does not allow one of the variables to be set. REQUIRES: called once, before any other method.
  Status Find();

  // Sets the variables before an inference: to the states of the only request of `execution`, or to those of
  // a new sequence. Throws OpenVINO's exceptions. Errors: a state whose type or size differs from the
  // model's.
  Status Prepare(const Execution& execution);
  // Appends the states to the outputs after an inference. Throws OpenVINO's exceptions.
  void Collect(std::vector<Tensor>& outputs);

 private:
  Status Set(size_t index, const Tensor& value);

  const CompiledFacts& facts_;
  const std::vector<std::shared_ptr<StatePool>>& pools_;
  ov::InferRequest& request_;
  std::vector<ov::VariableState> variables_;  // in the order of facts_.variables
};

}  // namespace braid
