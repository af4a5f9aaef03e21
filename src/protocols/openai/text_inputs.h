// The inputs of a text model for a request: only those that the model declares.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/field_fault.h"
#include "protocols/openai/request.h"
#include "serving/request.h"
#include "serving/servable.h"

namespace braid {

// The cuts of the text that the model does not make itself, so that the server makes them.
struct TextCuts {
  std::vector<std::string> stop;
  std::optional<int64_t> tokens;
};

// Fills inputs, parameters and requested outputs. Each field whose name is an input becomes that input; fields
// that OpenAI's API does not know become parameters otherwise. The rest goes into `sampling_parameters` if the
// model declares that. Errors: INVALID_ARGUMENT with the field, if its value does not fit its input, or if the
// model lacks an input for it and it would change the reply. Also for a chat without a prompt.
FieldFault FillTextInputs(const OpenAiRequest& from, const ServableInfo& info, BufferAllocator& allocator,
                          InferenceRequest& request, TextCuts& cuts);

// Adds a field that OpenAI's API does not know to the parameters of the request. Errors: INVALID_ARGUMENT for a
// reserved name, and for too many fields.
FieldFault AddParameter(const std::string& name, const Json& value, Parameters& parameters);

}  // namespace braid
