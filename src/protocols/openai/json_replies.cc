// The replies that models and graphs write themselves.

#include <utility>

#include "base/json.h"
#include "base/utf8.h"
#include "protocols/openai/reply.h"
#include "protocols/openai/tensors.h"

namespace braid {
namespace {

constexpr std::string_view kDoneText = "[DONE]";

std::string_view ObjectName(const OpenAiReplyFacts& facts) {
  if (facts.route == OpenAiRoute::kEmbedding) return "list";
  if (facts.route == OpenAiRoute::kCompletion) return "text_completion";
  return facts.stream ? "chat.completion.chunk" : "chat.completion";
}

class RawReply final : public OpenAiReply {
 public:
  explicit RawReply(OpenAiReplyFacts facts) : facts_(std::move(facts)) {}

  Status Take(const InferenceResponse& response, std::string& events) override {
    BRAID_ASSIGN_OR_RETURN(const auto text, TextOutput(response, kOpenAiResponseOutput));
    if (!text) {
      return InternalError("the model's response has no output '" + std::string(kOpenAiResponseOutput) + "'");
    }
    if (facts_.stream && *text == kDoneText) return OkStatus();
    Json object = ParseJson(*text);
    if (!object.is_object()) {
      return InternalError("the model's output '" + std::string(kOpenAiResponseOutput) +
                           "' must be a JSON object, but it is " + Shortened(*text, 80));
    }
    Complete(object);
    if (facts_.stream) {
      events.append("data: ").append(DumpJson(object)).append("\n\n");
      return OkStatus();
    }
    if (!body_.empty()) {
      return InternalError("the model made a second response to a request that asked for one reply");
    }
    body_ = DumpJson(object);
    return OkStatus();
  }

  bool complete() const override { return false; }

  Status End(std::string& out) override {
    if (!facts_.stream && body_.empty()) return InternalError("the model ended the request without a reply");
    out += facts_.stream ? kDoneEvent : body_;
    return OkStatus();
  }

 private:
  void Complete(Json& object) const {
    if (object.contains("error")) return;
    if (!object.contains("object")) object["object"] = ObjectName(facts_);
    if (!object.contains("model")) object["model"] = facts_.model;
    if (facts_.route == OpenAiRoute::kEmbedding) return;
    if (!object.contains("id")) object["id"] = facts_.id;
    if (!object.contains("created")) object["created"] = facts_.created;
  }

  const OpenAiReplyFacts facts_;
  std::string body_;
};

// Whether a line of an event is the end of the stream.
bool EndsStream(std::string_view event) {
  for (size_t at = 0; at < event.size();) {
    const size_t end = std::min(event.find_first_of("\r\n", at), event.size());
    const std::string_view line = event.substr(at, end - at);
    if (line == "data: [DONE]" || line == "data:[DONE]") return true;
    at = end + 1;
  }
  return false;
}

class PayloadReply final : public OpenAiReply {
 public:
  explicit PayloadReply(bool stream) : stream_(stream) {}

  Status Take(const InferenceResponse& response, std::string& events) override {
    if (response.outputs.empty()) return OkStatus();
    const std::string_view text = response.outputs.front().data.text();
    if (!stream_) {
      body_ = text;
      complete_ = true;
      return OkStatus();
    }
    if (text.starts_with("data:") || text.starts_with("event:") || text.starts_with(":")) {
      done_ = done_ || EndsStream(text);
      events += text;
      while (!events.ends_with("\n\n")) events += "\n";
      return OkStatus();
    }
    if (text == kDoneText) return OkStatus();
    // Each line of the text is a line of the event.
    for (size_t at = 0; at <= text.size();) {
      const size_t end = std::min(text.find_first_of("\r\n", at), text.size());
      events.append("data: ").append(text.substr(at, end - at)).append("\n");
      at = end + (text.substr(end).starts_with("\r\n") ? 2 : 1);
    }
    events += "\n";
    return OkStatus();
  }

  bool complete() const override { return complete_; }

  Status End(std::string& out) override {
    if (!stream_ && !complete_) return InternalError("the graph ended the request without a reply");
    if (!stream_) {
      out += body_;
    } else if (!done_) {
      out += kDoneEvent;
    }
    return OkStatus();
  }

 private:
  const bool stream_;
  std::string body_;
  bool complete_ = false;
  bool done_ = false;
};

}  // namespace

std::unique_ptr<OpenAiReply> MakeRawReply(OpenAiReplyFacts facts) {
  return std::make_unique<RawReply>(std::move(facts));
}

std::unique_ptr<OpenAiReply> MakePayloadReply(bool stream) { return std::make_unique<PayloadReply>(stream); }

}  // namespace braid
