// OpenAiReply: turns the responses of one request into the body of its reply, or into the events of a stream.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "protocols/openai/request.h"
#include "protocols/openai/text_inputs.h"
#include "serving/request.h"

namespace braid {

// The facts that every object of one reply has.
struct OpenAiReplyFacts {
  OpenAiRoute route = OpenAiRoute::kChat;
  std::string id;       // "chatcmpl-..."
  int64_t created = 0;  // seconds since 1970
  std::string model;
  bool stream = false;
  bool include_usage = false;
};

class OpenAiReply {
 public:
  virtual ~OpenAiReply() = default;

  // Takes a successful response, and appends its events to `events`. Errors: INTERNAL if the model's output
  // does not fit the convention.
  virtual Status Take(const InferenceResponse& response, std::string& events) = 0;
  // Whether it needs no further response. The request is then cancelled.
  virtual bool complete() const = 0;
  // Ends the reply: appends the last events, or the body. Errors: INTERNAL if a response is missing.
  virtual Status End(std::string& out) = 0;
};

// A text model: its pieces of text become chunks, or one text.
std::unique_ptr<OpenAiReply> MakeTextReply(OpenAiReplyFacts facts, int64_t choices, TextCuts cuts,
                                           std::optional<int64_t> max_tokens);
// A raw model: its JSON, to which missing fields of every reply are added.
std::unique_ptr<OpenAiReply> MakeRawReply(OpenAiReplyFacts facts);
// A graph with payloads: its text. In a stream, text without a field of an event becomes one event.
std::unique_ptr<OpenAiReply> MakePayloadReply(bool stream);

// The end of every stream.
inline constexpr std::string_view kDoneEvent = "data: [DONE]\n\n";

}  // namespace braid
