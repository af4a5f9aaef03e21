// The parameters and tensors of a config.pbtxt that let OpenAI's API reach a model (docs/openai.md).
//
//   parameters { key: "openai" value { string_value: "text" } }   # or raw, embedding, off
//   parameters { key: "openai_ignore" value { string_value: "temperature, top_p" } }
//   parameters { key: "openai_chat_template" value { string_value: "chat.jinja" } }
#pragma once

#include <string_view>

#include "config/field_fault.h"
#include "model_config.pb.h"
#include "serving/openai_convention.h"

namespace braid {

inline constexpr std::string_view kOpenAiParameter = "openai";
inline constexpr std::string_view kOpenAiIgnoreParameter = "openai_ignore";
inline constexpr std::string_view kChatTemplateParameter = "openai_chat_template";

// Returns the convention that the parameters choose. Without a choice, the model's tensors decide. REQUIRES:
// CheckOpenAiSettings() finds no fault.
OpenAiConvention OpenAiConventionOf(const inference::ModelConfig& config);

// Checks the parameters. Errors: INVALID_ARGUMENT for a value without a meaning, and for a convention whose
// tensors the model does not declare.
FieldFault CheckOpenAiSettings(const inference::ModelConfig& config);

}  // namespace braid
