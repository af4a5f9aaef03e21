// The facts that an instance needs to know of its model: ports, states, memory. Constant once the model is
// compiled; shared by all instances of the model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <openvino/openvino.hpp>

#include "backends/openvino/model_states.h"
#include "backends/openvino/tensor_names.h"
#include "base/log.h"
#include "base/status.h"
#include "serving/request.h"
#include "serving/servable.h"
#include "tensor/data_type.h"
#include "tensor/tensor.h"

namespace braid {

struct CompiledTensor {
  std::string name;  // the name for clients
  DataType type = DataType::kInvalid;
  ov::element::Type element;
  // Whether the shape is known before an inference. If not, `shape` is the smallest possible one, and `bytes`
  // is meaningless.
  bool is_static = false;
  ov::Shape shape;
  size_t bytes = 0;
};

// How an inference receives the states of its sequence, if the model has any.
enum class StatePlace : unsigned char {
  kNone,
  kPorts,      // as the last inputs and outputs
  kVariables,  // in variables, set before and read after each inference
  kReset,      // in variables, reset before each inference
};

// Setting an input and an output of an infer request takes some 4 us. For states up to this size it is faster
// to copy them to and from memory that the request keeps.
inline constexpr size_t kMostCopiedStateBytes = 8192;

struct CompiledFacts {
  std::string model_name;
  Dialect dialect = Dialect::kTriton;
  // In the order of the compiled model's ports.
  std::vector<CompiledTensor> inputs;
  std::vector<CompiledTensor> outputs;

  StatePlace states = StatePlace::kNone;
  // kPorts: the initial states of a new sequence, in the order of the ports.
  std::vector<Tensor> initial_states;
  // kVariables: the variables, in the order in which requests carry the states.
  std::vector<CompiledTensor> variables;

  // Memory for outputs and states; null: the heap.
  BufferAllocator* output_memory = nullptr;

  // The number of ports that clients know of; the ports of states follow them.
  size_t own_inputs() const { return inputs.size() - initial_states.size(); }
  size_t own_outputs() const { return outputs.size() - initial_states.size(); }
  // Whether the state of this port (an index among inputs or outputs) is copied.
  bool CopiesInput(size_t index) const { return index >= own_inputs() && IsCopied(inputs[index]); }
  bool CopiesOutput(size_t index) const { return index >= own_outputs() && IsCopied(outputs[index]); }
  // The number of states that a request of a running sequence carries behind the client's inputs.
  size_t state_count() const {
    if (states == StatePlace::kPorts) return initial_states.size();
    return states == StatePlace::kVariables ? variables.size() : 0;
  }

 private:
  static bool IsCopied(const CompiledTensor& port) {
    return port.is_static && port.bytes > 0 && port.bytes <= kMostCopiedStateBytes;
  }
};

// Makes the facts of a model that is ready to be compiled; `names` are those for clients. Errors: UNSUPPORTED
// for a tensor of a type that no client can send or receive.
Result<CompiledFacts> MakeFacts(std::string model_name, const ov::Model& model, const ModelNames& names);

// Adds the states that TakeStates() took out of `model` or left in it.
Status AddStates(const ov::Model& model, ModelStates states, CompiledFacts& facts);
// Adds the variables to reset before each inference (see ForgetStates()).
void AddForgotten(const std::vector<std::string>& variables, CompiledFacts& facts);

// Adds output shapes that became known when the model was compiled; the device then insists on them. Throws
// OpenVINO's exceptions.
void TakeShapes(const ov::CompiledModel& compiled, CompiledFacts& facts);

// Returns the end of a log line on a compiled model: the precision for FP32; empty if the device does not
// report one.
std::string DescribePrecision(const std::string& precision);

// Checks for types that OpenVINO's CPU device computes in smaller ones: INT64 and UINT64 in INT32, FP64 in
// FP32. Large numbers then come out wrong. Names the affected inputs and outputs in a warning, or in the
// error. Errors: UNSUPPORTED unless `allowed`.
Status CheckSmallerTypes(const CompiledFacts& facts, const std::string& device, bool allowed, Logger& log);

// Whether a request carries the states of its sequence behind the client's inputs. If not, it begins a
// sequence.
inline bool HasStates(const CompiledFacts& facts, const InferenceRequest& request) {
  return facts.state_count() > 0 && request.inputs.size() == facts.own_inputs() + facts.state_count();
}

// Errors: INVALID_ARGUMENT for a request with some but not all states of its sequence.
Status CheckStates(const CompiledFacts& facts, const InferenceRequest& request);

// Returns the client's error for an inference over inputs of these shapes that OpenVINO aborted.
Status InferenceError(const CompiledFacts& facts, const std::vector<ov::Shape>& shapes,
                      const std::string& text);
// Returns the client's error for shapes that the network does not accept.
Status ShapesError(const CompiledFacts& facts, const std::vector<ov::Shape>& shapes, const std::string& text);

}  // namespace braid
