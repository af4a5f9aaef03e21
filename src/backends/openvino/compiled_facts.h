// What instances need to know of the model that they run. Constant once the model is compiled; shared by all
// of its instances.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <openvino/openvino.hpp>

#include "backends/openvino/tensor_names.h"
#include "base/status.h"
#include "serving/servable.h"
#include "tensor/data_type.h"

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

struct CompiledFacts {
  std::string model_name;
  Dialect dialect = Dialect::kTriton;
  // A shape or batch size of the configuration is "auto": any shape is tried.
  bool automatic = false;
  // In the order of the compiled model's ports.
  std::vector<CompiledTensor> inputs;
  std::vector<CompiledTensor> outputs;
};

// From a model that is ready to be compiled, and the names that clients know. Errors: UNSUPPORTED for a
// tensor of a type that no client can send or receive.
Result<CompiledFacts> MakeFacts(std::string model_name, const ov::Model& model, const ModelNames& names);

// Compiling a model may find out shapes that were not known before, and the device then insists on them.
// Throws what OpenVINO throws.
void TakeShapes(const ov::CompiledModel& compiled, CompiledFacts& facts);

// What a client hears of an inference that OpenVINO refused or broke off.
Status InferenceError(const CompiledFacts& facts, const std::string& text);

}  // namespace braid
