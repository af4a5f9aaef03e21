// OpenAiRequest: the body of a POST to OpenAI's API, parsed and checked.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "config/field_fault.h"

namespace braid {

enum class OpenAiRoute : unsigned char { kChat, kCompletion, kEmbedding };

struct OpenAiRequest {
  OpenAiRoute route = OpenAiRoute::kChat;
  // The body: an object whose known fields have valid values. A field of null counts as absent.
  Json body;
  std::string model;
  bool stream = false;
  bool include_usage = false;  // in the stream
  std::vector<std::string> stop;
  std::optional<int64_t> max_tokens;
  int64_t choices = 1;  // n
};

// Reads and checks a body. Errors: INVALID_ARGUMENT with the wrong field, its value, and the expected values.
FieldFault ReadOpenAiRequest(OpenAiRoute route, std::string_view text, OpenAiRequest& request);

// Drops fields of a request, as if they were not given. REQUIRES: none of the names is `model`, `messages`,
// `prompt`, `input`, `stream` or `stream_options`.
void IgnoreFields(std::span<const std::string> names, OpenAiRequest& request);

// Returns the field, or null if it is absent or null.
const Json* FieldOf(const Json& object, std::string_view name);

// Returns the text of a message's content, whose parts are joined; nullopt if a part is not text.
std::optional<std::string> TextOfContent(const Json& content);

}  // namespace braid
