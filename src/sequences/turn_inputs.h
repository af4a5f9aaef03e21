// TurnInputs: the inputs that the server adds to a request of a sequence before an instance gets it, and
// removes afterwards. These are flags, control tensors and implicit state. It also makes the padding requests
// for empty slots.
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
  // `info` is that of a model with sequence_batching, and outlives this object.
  explicit TurnInputs(const ServableInfo& info) : info_(info), controls_(*info.config), state_(info) {}

  // See ImplicitState.
  void KeepOwn() { state_.KeepOwn(); }
  bool has_state() const { return !state_.empty(); }
  // See ControlInputs::EncodeId().
  Result<Buffer> EncodeId(const CorrelationId& id) const { return controls_.EncodeId(id); }

  // The initial states of sequences, and the specifications of states; empty if the model has no implicit
  // state.
  const std::vector<Tensor>& initial_states() const { return state_.initial(); }
  std::vector<StateSpec> state_specs() const { return state_.specs(); }

  // Adds the inputs of its sequence to a request. `load`: the instance does not have the sequence's state.
  // Called under the scheduler's lock, and quick: the tensors share memory with `states`.
  void Add(const Buffer& id_bytes, const std::vector<Tensor>& states, bool load,
           InferenceRequest& request) const;
  // Adds the inputs of a sequence of one request, for the warm-up.
  void AddLone(InferenceRequest& request) const;
  // Creates a request for a slot without a request. Its answer is discarded.
  std::unique_ptr<InferenceRequest> MakePadding() const;
  bool IsPadding(const InferenceRequest& request) const { return request.sink == &nowhere_; }

  // Completes an execution before an instance gets it, without the lock. Padding gets the inputs of the other
  // requests, as zeros. The states are copied for each request, since user code may write to its inputs.
  void Complete(Execution& execution, BufferAllocator& allocator) const;

  // Moves the states from a good response to `request` into `states`, which are the previous ones. If they
  // are invalid, turns the response into an error. Returns true if the states were taken.
  bool TakeState(const InferenceRequest& request, InferenceResponse& response,
                 std::vector<Tensor>& states) const;
  // Removes all added inputs and outputs from the request.
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
