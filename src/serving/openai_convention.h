// OpenAiConvention: how a servable takes the requests of OpenAI's API. Its origin decides when it is loaded:
// the configuration of a model (config/openai_settings.h), or the tags of a graph's streams.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"

namespace braid {

enum class OpenAiKind : unsigned char {
  kNone,
  kText,       // a prompt in, pieces of text out
  kRaw,        // JSON in and out
  kEmbedding,  // texts in, a row of numbers for each out
  kPayload,    // a graph: JSON in, text out
};

struct OpenAiConvention {
  OpenAiKind kind = OpenAiKind::kNone;
  // Whether the model's process makes the prompt of a chat, by the model's chat template.
  bool renders_chats = false;
  // Fields of requests that are accepted and dropped.
  std::vector<std::string> ignored = {};
};

// The tensors of the conventions. kText: kPromptInput, kTextOutput. kEmbedding: kPromptInput,
// kEmbeddingOutput. kRaw: the last two.
inline constexpr std::string_view kTextOutput = "text_output";
inline constexpr std::string_view kEmbeddingOutput = "embedding";
inline constexpr std::string_view kOpenAiRequestInput = "openai_request";
inline constexpr std::string_view kOpenAiResponseOutput = "openai_response";
// The input of a text model that takes the messages of a chat itself.
inline constexpr std::string_view kMessagesInput = "messages";
// The tags of a graph's streams with payloads. The first is also the datatype of its input.
inline constexpr std::string_view kRequestPayloadTag = "HTTP_REQUEST_PAYLOAD";
inline constexpr std::string_view kResponsePayloadTag = "HTTP_RESPONSE_PAYLOAD";

}  // namespace braid
