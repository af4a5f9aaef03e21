#include <algorithm>
#include <map>
#include <utility>

#include "base/json.h"
#include "base/utf8.h"
#include "protocols/http/message.h"
#include "protocols/openai/reply.h"
#include "protocols/openai/stop_cutter.h"
#include "protocols/openai/tensors.h"

namespace braid {
namespace {

// Joins two values of `logprobs`: objects whose lists continue.
void Join(Json& all, const Json& more) {
  if (!all.is_object() || !more.is_object()) {
    all = more;
    return;
  }
  for (const auto& [name, value] : more.items()) {
    Json& own = all[name];
    if (own.is_array() && value.is_array()) {
      own.insert(own.end(), value.begin(), value.end());
    } else {
      own = value;
    }
  }
}

void Append(Json& text, const Json& more) {
  if (!more.is_string()) return;
  if (!text.is_string()) text = "";
  text.get_ref<std::string&>() += more.get_ref<const std::string&>();
}

// The tool calls of one choice. A call may come in fragments, which have its index.
class ToolCalls {
 public:
  // Adds a list of calls. Calls without an index get the next one, and an id. Returns the list as a delta.
  Json Add(const Json& list, std::string_view reply_id, int64_t choice) {
    Json delta = Json::array();
    for (Json call : list) {
      if (!call.contains("index")) {
        const std::string id =
            std::string("call_").append(reply_id).append("_").append(std::to_string(choice)) + "_";
        call["index"] = calls_.size();
        if (!call.contains("id")) call["id"] = id + std::to_string(calls_.size());
        if (!call.contains("type")) call["type"] = "function";
      }
      Merge(call);
      delta.push_back(std::move(call));
    }
    return delta;
  }
  bool empty() const { return calls_.empty(); }
  // The list for a message.
  Json All() const {
    Json all = Json::array();
    for (const auto& [index, call] : calls_) all.push_back(call);
    return all;
  }

 private:
  void Merge(const Json& fragment) {
    const int64_t index = fragment.at("index").is_number_integer() ? fragment.at("index").get<int64_t>() : 0;
    Json& call = calls_.try_emplace(index, Json::object()).first->second;
    for (const auto& [name, value] : fragment.items()) {
      if (name == "index") continue;
      if (name != "function" || !call.contains(name)) {
        call[name] = value;
        continue;
      }
      Json& function = call[name];
      for (const auto& [part, text] : value.items()) {
        if (part == "arguments") {
          Append(function[part], text);
        } else {
          function[part] = text;
        }
      }
    }
  }

  std::map<int64_t, Json> calls_;  // by index
};

struct Choice {
  explicit Choice(const TextCuts& cuts) : cutter(cuts.stop) {}

  StopCutter cutter;
  std::string text;  // without a stream
  ToolCalls tool_calls;
  Json logprobs;              // null without any
  std::string finish_reason;  // "" until it is known
  bool begun = false;         // the first chunk of a chat was sent
  int64_t tokens = 0;
  bool over = false;  // cut: further text is dropped
};

class TextReply final : public OpenAiReply {
 public:
  TextReply(OpenAiReplyFacts facts, int64_t choices, TextCuts cuts, std::optional<int64_t> max_tokens)
      : facts_(std::move(facts)), cuts_(std::move(cuts)), max_tokens_(max_tokens) {
    for (int64_t i = 0; i < choices; ++i) choices_.emplace_back(cuts_);
    const bool chat = facts_.route == OpenAiRoute::kChat;
    head_ = "{\"id\":\"" + facts_.id + "\",\"object\":\"" +
            (!chat           ? "text_completion"
             : facts_.stream ? "chat.completion.chunk"
                             : "chat.completion") +
            "\",\"created\":" + std::to_string(facts_.created) + ",\"model\":";
    AppendJsonString(head_, facts_.model);
    head_ += ",\"choices\":[";
  }

  Status Take(const InferenceResponse& response, std::string& events) override {
    BRAID_ASSIGN_OR_RETURN(const auto index, IntegerOutput(response, "index"));
    if (index.value_or(0) < 0 || index.value_or(0) >= static_cast<int64_t>(choices_.size())) {
      return InternalError("the model's output 'index' is " + std::to_string(*index) + ", but there are " +
                           std::to_string(choices_.size()) + " choices");
    }
    const int64_t number = index.value_or(0);
    Choice& choice = choices_[static_cast<size_t>(number)];
    BRAID_ASSIGN_OR_RETURN(const auto text, TextOutput(response, kTextOutput));
    BRAID_ASSIGN_OR_RETURN(const auto reason, TextOutput(response, "finish_reason"));
    BRAID_ASSIGN_OR_RETURN(const Json calls, JsonOutput(response, "tool_calls"));
    BRAID_ASSIGN_OR_RETURN(const Json logprobs, JsonOutput(response, "logprobs"));
    BRAID_RETURN_IF_ERROR(Count(response, text.value_or(""), choice));
    if (choice.over) return OkStatus();
    std::string piece = choice.cutter.Add(text.value_or(""));
    if (reason && !reason->empty()) choice.finish_reason = *reason;
    Json delta = calls.is_array() ? choice.tool_calls.Add(calls, facts_.id, number) : Json();
    if (choice.cutter.stopped()) {
      choice.over = true;
      choice.finish_reason = "stop";
    } else if (cuts_.tokens && choice.tokens >= *cuts_.tokens) {
      piece += choice.cutter.Rest();
      choice.over = true;
      if (choice.finish_reason.empty()) choice.finish_reason = "length";
    }
    if (facts_.stream) {
      if (!piece.empty() || !delta.is_null() || !logprobs.is_null() || !choice.begun)
        AppendChunk(number, choice, piece, delta, logprobs, events);
    } else {
      choice.text += piece;
      if (!logprobs.is_null()) Join(choice.logprobs, logprobs);
    }
    return OkStatus();
  }

  bool complete() const override {
    return std::all_of(choices_.begin(), choices_.end(), [](const Choice& choice) { return choice.over; });
  }

  Status End(std::string& out) override {
    if (!facts_.stream) {
      out += head_;
      for (size_t i = 0; i < choices_.size(); ++i) AppendChoice(static_cast<int64_t>(i), choices_[i], out);
      out += "],\"usage\":";
      AppendUsage(out);
      out += "}";
      return OkStatus();
    }
    for (size_t i = 0; i < choices_.size(); ++i) {
      Choice& choice = choices_[i];
      const auto number = static_cast<int64_t>(i);
      const std::string rest = choice.over ? "" : choice.cutter.Rest();
      if (!rest.empty() || !choice.begun) AppendChunk(number, choice, rest, Json(), Json(), out);
      BeginChunk(number, out);
      out += facts_.route == OpenAiRoute::kChat ? "\"delta\":{}" : "\"text\":\"\"";
      out += ",\"logprobs\":null,\"finish_reason\":";
      AppendJsonString(out, ToUtf8(ReasonOf(choice)));
      EndChunk(out);
    }
    if (facts_.include_usage && has_usage()) {
      out.append("data: ").append(head_).append("],\"usage\":");
      AppendUsage(out);
      out += "}\n\n";
    }
    out += kDoneEvent;
    return OkStatus();
  }

 private:
  // Returns null for none, and for an empty text.
  static Result<Json> JsonOutput(const InferenceResponse& response, std::string_view name) {
    BRAID_ASSIGN_OR_RETURN(const auto text, TextOutput(response, name));
    if (!text || text->empty()) return Json();
    Json json = ParseJson(*text);
    const bool good = name == "tool_calls" ? json.is_array() && std::all_of(json.begin(), json.end(), IsCall)
                                           : json.is_object() || json.is_array();
    if (good) return json;
    return InternalError("the model's output '" + std::string(name) + "' must be JSON, a list of objects " +
                         (name == "tool_calls" ? "with 'function', an object" : "or an object") +
                         ", but it is " + Shortened(*text, 80));
  }
  static bool IsCall(const Json& call) {
    return call.is_object() && (!call.contains("function") || call.at("function").is_object());
  }

  // Counts tokens: those that the model reports, or one for each response with text.
  Status Count(const InferenceResponse& response, std::string_view text, Choice& choice) {
    BRAID_ASSIGN_OR_RETURN(const auto given, SumOfOutput(response, "num_input_tokens"));
    BRAID_ASSIGN_OR_RETURN(const auto made, SumOfOutput(response, "num_output_tokens"));
    if (given && !prompt_tokens_) prompt_tokens_ = given;
    if (made) completion_tokens_ += *made;
    made_ = made_ || made;
    choice.tokens += made.value_or(text.empty() ? 0 : 1);
    return OkStatus();
  }

  std::string_view ReasonOf(const Choice& choice) const {
    if (!choice.finish_reason.empty()) return choice.finish_reason;
    if (!choice.tool_calls.empty()) return "tool_calls";
    return max_tokens_ && choice.tokens >= *max_tokens_ ? "length" : "stop";
  }

  // Whether the model has reported the tokens of the prompt and of the reply.
  bool has_usage() const { return prompt_tokens_ && made_; }
  void AppendUsage(std::string& out) const {
    if (!has_usage()) {
      out += "null";
      return;
    }
    const int64_t prompt = prompt_tokens_.value_or(0);
    out += "{\"prompt_tokens\":" + std::to_string(prompt) +
           ",\"completion_tokens\":" + std::to_string(completion_tokens_) +
           ",\"total_tokens\":" + std::to_string(prompt + completion_tokens_) + "}";
  }

  void BeginChunk(int64_t number, std::string& out) const {
    out.append("data: ").append(head_).append("{\"index\":").append(std::to_string(number)).append(",");
  }
  void EndChunk(std::string& out) const {
    out += facts_.include_usage ? "}],\"usage\":null}\n\n" : "}]}\n\n";
  }

  void AppendChunk(int64_t number, Choice& choice, std::string_view piece, const Json& calls,
                   const Json& logprobs, std::string& out) const {
    const bool chat = facts_.route == OpenAiRoute::kChat;
    if (chat && !choice.begun) {
      BeginChunk(number, out);
      out += R"("delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null)";
      EndChunk(out);
    }
    choice.begun = true;
    if (piece.empty() && calls.is_null() && logprobs.is_null()) return;
    BeginChunk(number, out);
    if (!chat) {
      out += "\"text\":";
      AppendJsonString(out, ToUtf8(piece));
    } else {
      out += "\"delta\":{";
      if (!piece.empty() || calls.is_null()) {
        out += "\"content\":";
        AppendJsonString(out, ToUtf8(piece));
      }
      if (!calls.is_null()) {
        if (!piece.empty()) out += ",";
        out.append("\"tool_calls\":").append(DumpJson(calls));
      }
      out += "}";
    }
    out.append(",\"logprobs\":").append(DumpJson(logprobs)).append(",\"finish_reason\":null");
    EndChunk(out);
  }

  void AppendChoice(int64_t number, Choice& choice, std::string& out) const {
    if (!choice.over) choice.text += choice.cutter.Rest();
    if (number > 0) out += ",";
    out.append("{\"index\":").append(std::to_string(number));
    if (facts_.route == OpenAiRoute::kChat) {
      out += R"(,"message":{"role":"assistant","content":)";
      if (choice.text.empty() && !choice.tool_calls.empty()) {
        out += "null";
      } else {
        AppendJsonString(out, ToUtf8(choice.text));
      }
      out += ",\"refusal\":null";
      if (!choice.tool_calls.empty())
        out.append(",\"tool_calls\":").append(DumpJson(choice.tool_calls.All()));
      out += "}";
    } else {
      out += ",\"text\":";
      AppendJsonString(out, ToUtf8(choice.text));
    }
    out.append(",\"logprobs\":").append(DumpJson(choice.logprobs)).append(",\"finish_reason\":");
    AppendJsonString(out, ToUtf8(ReasonOf(choice)));
    out += "}";
  }

  const OpenAiReplyFacts facts_;
  const TextCuts cuts_;
  const std::optional<int64_t> max_tokens_;
  std::string head_;  // the beginning of every object of the reply
  std::vector<Choice> choices_;
  std::optional<int64_t> prompt_tokens_;
  int64_t completion_tokens_ = 0;
  bool made_ = false;  // the model has reported tokens that it made
};

}  // namespace

std::unique_ptr<OpenAiReply> MakeTextReply(OpenAiReplyFacts facts, int64_t choices, TextCuts cuts,
                                           std::optional<int64_t> max_tokens) {
  return std::make_unique<TextReply>(std::move(facts), choices, std::move(cuts), max_tokens);
}

}  // namespace braid
