// What instances need to know of the model that they run. Constant once the model is compiled; shared by all
// of its instances.
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
  std::string name;  // as clients know it
  DataType type = DataType::kInvalid;
  ov::element::Type element;
  // Whether the shape is known beforehand; else `shape` is the smallest that it can be, and `bytes` means
  // nothing.
  bool is_static = false;
  ov::Shape shape;
  size_t bytes = 0;
};

// Where an inference has the states of its sequence, if the model has any.
enum class StatePlace : unsigned char {
  kNone,
  kPorts,      // the last inputs and outputs
  kVariables,  // variables of the infer request, set before and read after each inference
  kReset,      // variables that nothing is to be left in: each inference begins anew
};

// Setting an input and an output of an infer request takes some 4 us. A state of up to this size is sooner
// copied to and from memory that the request keeps.
inline constexpr size_t kMostCopiedStateBytes = 8192;

struct CompiledFacts {
  std::string model_name;
  Dialect dialect = Dialect::kTriton;
  // In the order of the compiled model's ports.
  std::vector<CompiledTensor> inputs;
  std::vector<CompiledTensor> outputs;

  StatePlace states = StatePlace::kNone;
  // Ports: what a new sequence begins with, in their order.
  std::vector<Tensor> initial_states;
  // Variables, in the order in which requests have them.
  std::vector<CompiledTensor> variables;

  // Where outputs and states are written; null: the heap.
  BufferAllocator* output_memory = nullptr;

  // The ports that a client knows of; states are behind them.
  size_t own_inputs() const { return inputs.size() - initial_states.size(); }
  size_t own_outputs() const { return outputs.size() - initial_states.size(); }
  // Whether the state that has this port (an index among inputs or outputs) is copied.
  bool CopiesInput(size_t index) const { return index >= own_inputs() && IsCopied(inputs[index]); }
  bool CopiesOutput(size_t index) const { return index >= own_outputs() && IsCopied(outputs[index]); }
  // How many tensors a request of a running sequence has behind its own.
  size_t state_count() const {
    if (states == StatePlace::kPorts) return initial_states.size();
    return states == StatePlace::kVariables ? variables.size() : 0;
  }

 private:
  static bool IsCopied(const CompiledTensor& port) {
    return port.is_static && port.bytes > 0 && port.bytes <= kMostCopiedStateBytes;
  }
};

// From a model that is ready to be compiled, and the names that clients know. Errors: UNSUPPORTED for a
// tensor of a type that no client can send or receive.
Result<CompiledFacts> MakeFacts(std::string model_name, const ov::Model& model, const ModelNames& names);

// Adds what was taken out of `model` (TakeStates()), or stayed in it.
Status AddStates(const ov::Model& model, ModelStates states, CompiledFacts& facts);
// Adds what has to be reset before each inference (ForgetStates()).
void AddForgotten(const std::vector<std::string>& variables, CompiledFacts& facts);

// Compiling a model may find out shapes that were not known before, and the device then insists on them.
// Throws what OpenVINO throws.
void TakeShapes(const ov::CompiledModel& compiled, CompiledFacts& facts);

// The end of a log line on a compiled model: in which precision FP32 is computed; empty where the device does not tell.
std::string DescribePrecision(const std::string& precision);

// OpenVINO's CPU device computes INT64 and UINT64 in INT32, and FP64 in FP32, so large numbers come out as others. Names the
// inputs and outputs of such types in a warning, or in the error. Errors: UNSUPPORTED unless `allowed`.
Status CheckSmallerTypes(const CompiledFacts& facts, const std::string& device, bool allowed, Logger& log);

// Whether a request has the states of its sequence behind the client's inputs; else it begins one.
inline bool HasStates(const CompiledFacts& facts, const InferenceRequest& request) {
  return facts.state_count() > 0 && request.inputs.size() == facts.own_inputs() + facts.state_count();
}

// Errors: a request that has some of its sequence's states and not all.
Status CheckStates(const CompiledFacts& facts, const InferenceRequest& request);

// What a client hears of an inference that OpenVINO broke off, over inputs of these shapes.
Status InferenceError(const CompiledFacts& facts, const std::vector<ov::Shape>& shapes,
                      const std::string& text);
// And of shapes that the network cannot do.
Status ShapesError(const CompiledFacts& facts, const std::vector<ov::Shape>& shapes, const std::string& text);

}  // namespace braid
