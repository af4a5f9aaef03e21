// TurnInputs: what the server adds to a request of a sequence before an instance gets it, and takes off
// again: flags, control tensors, implicit state; and the requests that stand for empty slots.
#pragma once

#include <memory>
#include <optional>

#include "scheduling/instance.h"
#include "sequences/control_inputs.h"
#include "sequences/implicit_state.h"
#include "serving/servable.h"

namespace braid {

class TurnInputs {
 public:
  // `info` is that of a model with sequence_batching, and outlives this.
  explicit TurnInputs(const ServableInfo& info) : info_(info), controls_(*info.config), state_(info) {}

  // See ImplicitState.
  void KeepOwn() { state_.KeepOwn(); }
  bool has_state() const { return !state_.empty(); }
  // See ControlInputs::EncodeId().
  Result<Buffer> EncodeId(const CorrelationId& id) const { return controls_.EncodeId(id); }

  // What sequences begin with, and what their states are; none where the model has no implicit state.
  const std::vector<Tensor>& initial_states() const { return state_.initial(); }
  std::vector<StateSpec> state_specs() const { return state_.specs(); }

  // Adds to a request of a sequence what it has; with `load` the instance has nothing of it. Under the scheduler's
  // lock, and quick: the tensors share memory with `states`.
  void Add(const Buffer& id_bytes, const std::vector<Tensor>& states, bool load,
           InferenceRequest& request) const;
  // The same for a request of a sequence that has no other: what a model is warmed up with.
  void AddLone(InferenceRequest& request) const;
  // A request for a slot that has nothing to run. It goes nowhere when it is answered.
  std::unique_ptr<InferenceRequest> MakePadding() const;
  bool IsPadding(const InferenceRequest& request) const { return request.sink == &nowhere_; }

  // Outside of the lock, before an instance gets the execution: gives padding the inputs of the other
  // requests, as zeros, and the requests memory of their own for the states, since user code may write to
  // its inputs.
  void Complete(Execution& execution, BufferAllocator& allocator) const;

  // Takes the states out of a good response to `request` into `states`, which are those before; the response becomes
  // an error if they are not what they should be. Whether it did.
  bool TakeState(const InferenceRequest& request, InferenceResponse& response,
                 std::vector<Tensor>& states) const;
  // Makes the request what it was when it came.
  static void Remove(InferenceRequest& request);

 private:
  class Nowhere final : public ResponseSink {
   public:
    void Respond(std::optional<InferenceResponse>, bool) override {}
  };

  const ServableInfo& info_;
  const ControlInputs controls_;
  ImplicitState state_;
  mutable Nowhere nowhere_;  // has no state
};

}  // namespace braid
