// Functions between JSON values and tensors: the inputs of models with OpenAI's conventions, and their
// outputs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "serving/request.h"
#include "serving/servable.h"
#include "tensor/buffer.h"
#include "tensor/tensor.h"

namespace braid {

// Makes the input of a field's value, cast to the declared type. A BYTES input takes a text as it is, a list
// of texts as elements, and everything else as JSON. Errors: INVALID_ARGUMENT for a value of another kind or
// out of range, for a number of values that does not fit the shape, and for types without JSON values.
Result<Tensor> InputOf(const TensorSpec& spec, const Json& value, bool batching, BufferAllocator& allocator);

// Makes a BYTES tensor of these texts.
Result<Tensor> TextTensor(std::string_view name, const Shape& shape, std::span<const std::string> texts,
                          BufferAllocator& allocator);

// Returns the output, or null.
const Tensor* OutputOf(const InferenceResponse& response, std::string_view name);

// Return the value of an output with one element, or of the response's parameter of that name; nullopt if
// there is none. Errors: INTERNAL for several elements, and for a type that is not BYTES, or not an integer.
Result<std::optional<std::string>> TextOutput(const InferenceResponse& response, std::string_view name);
Result<std::optional<int64_t>> IntegerOutput(const InferenceResponse& response, std::string_view name);

// Returns the sum of all elements of an integer output; nullopt without one. Errors: as IntegerOutput().
Result<std::optional<int64_t>> SumOfOutput(const InferenceResponse& response, std::string_view name);

}  // namespace braid
