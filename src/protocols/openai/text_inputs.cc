#include "protocols/openai/text_inputs.h"

#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "protocols/inference/reserved_parameters.h"
#include "protocols/openai/tensors.h"

namespace braid {
namespace {

constexpr std::string_view kSampling = "sampling_parameters";
constexpr size_t kMostParameters = 128;

template <size_t count>
bool IsOneOf(std::string_view name, const std::array<std::string_view, count>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Read elsewhere, or not for the model.
constexpr std::array<std::string_view, 5> kOwn = {"model", "messages", "prompt", "stream", "stream_options"};
// Notes of the client that do not change the reply.
constexpr std::array<std::string_view, 7> kNotes = {
    "user",       "metadata",         "service_tier",          "safety_identifier",
    "prediction", "prompt_cache_key", "prompt_cache_retention"};
// Fields of OpenAI's API that change the reply. A model honours them, or the request is refused.
constexpr std::array<std::string_view, 26> kKnown = {"n",
                                                     "best_of",
                                                     "temperature",
                                                     "top_p",
                                                     "frequency_penalty",
                                                     "seed",
                                                     "logit_bias",
                                                     "logprobs",
                                                     "top_logprobs",
                                                     "presence_penalty",
                                                     "echo",
                                                     "suffix",
                                                     "tools",
                                                     "tool_choice",
                                                     "functions",
                                                     "audio",
                                                     "store",
                                                     "verbosity",
                                                     "function_call",
                                                     "response_format",
                                                     "modalities",
                                                     "reasoning_effort",
                                                     "dimensions",
                                                     "encoding_format",
                                                     "web_search_options",
                                                     "parallel_tool_calls"};

// Whether the value asks for nothing that a model does not do anyway.
bool IsNeutral(std::string_view name, const Json& value) {
  if (name == "n" || name == "best_of" || name == "temperature" || name == "top_p") {
    return value.is_number() && value.get<double>() == 1;
  }
  if (value.is_number()) return value.get<double>() == 0 && name != "logprobs" && name != "seed";
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_object() || value.is_array()) {
    if (value.empty()) return true;
    if (name == "response_format") return value.contains("type") && value.at("type") == "text";
    return name == "modalities" && value == Json::array({"text"});
  }
  if (name == "tool_choice" || name == "function_call") return value == "none" || value == "auto";
  return value == "";
}

FieldFault Refused(std::string_view field, const ServableInfo& info, std::string_view why) {
  return InvalidField(
      "'" + std::string(field) + "' is not supported: model '" + info.name + "' " + std::string(why),
      std::string(field));
}

class Filler {
 public:
  Filler(const OpenAiRequest& from, const ServableInfo& info, BufferAllocator& allocator,
         InferenceRequest& request, TextCuts& cuts)
      : from_(from), info_(info), allocator_(allocator), request_(request), cuts_(cuts) {}

  FieldFault Fill() {
    BRAID_RETURN_IF_FAULT(from_.route == OpenAiRoute::kChat ? AddChat() : AddPrompt());
    BRAID_RETURN_IF_FAULT(Add("stream", Json(from_.stream), "stream"));
    for (const auto& [name, value] : from_.body.items()) {
      if (value.is_null()) continue;
      if (name == (from_.route == OpenAiRoute::kChat ? "prompt" : "messages")) {
        return InvalidField("'" + name + "' belongs to another route than this one", name);
      }
      if (!IsOneOf(name, kOwn)) BRAID_RETURN_IF_FAULT(AddField(name, value));
    }
    return AddSettings();
  }

 private:
  bool Declares(std::string_view input) const { return info_.FindInput(input) != nullptr; }
  bool samples() const { return Declares(kSampling); }

  // Adds an input if the model declares it. A fault names `field`.
  FieldFault Add(std::string_view input, const Json& value, std::string_view field) {
    const TensorSpec* spec = info_.FindInput(input);
    const bool given = std::any_of(request_.inputs.begin(), request_.inputs.end(),
                                   [input](const Tensor& tensor) { return tensor.name == input; });
    if (spec == nullptr || given) return {};
    auto tensor = InputOf(*spec, value, info_.max_batch_size > 0, allocator_);
    if (!tensor.ok()) return {tensor.status(), std::string(field)};
    request_.inputs.push_back(*std::move(tensor));
    return {};
  }

  FieldFault AddField(const std::string& name, const Json& value) {
    if (name == "stop") return AddStop(value);
    if (name == "max_tokens" || name == "max_completion_tokens") return AddMaxTokens(name);
    if (name == "echo" && HasEchoInput()) return {};
    if (name == "logprobs" && Declares("return_logprobs")) return {};
    if (name == kPromptInput) {
      return InvalidField("'" + name + "' is the prompt; give it as 'prompt' or 'messages'", name);
    }
    if (Declares(name)) return Add(name, value, name);
    if (samples() || IsOneOf(name, kNotes)) return {};
    if (name == "chat_template_kwargs" && request_.renders_chat) return {};
    if (!IsOneOf(name, kKnown)) return AddParameter(name, value, request_.parameters);
    const bool tools = FieldOf(from_.body, "tools") != nullptr;
    const bool neutral = name == "parallel_tool_calls" ? value == true || !tools : IsNeutral(name, value);
    if (neutral || (name == "tools" && RendersTools())) return {};
    return Refused(name, info_, "has no input '" + name + "'");
  }

  FieldFault AddStop(const Json& value) {
    for (const std::string_view input : {"stop_words", "stop"}) {
      if (Declares(input)) return from_.stop.empty() ? FieldFault() : Add(input, Texts(value), "stop");
    }
    if (!samples()) cuts_.stop = from_.stop;
    return {};
  }

  FieldFault AddMaxTokens(const std::string& name) {
    // The newer of the two names wins.
    if (name == "max_tokens" && FieldOf(from_.body, "max_completion_tokens") != nullptr) return {};
    if (Declares("max_tokens")) return Add("max_tokens", Json(*from_.max_tokens), name);
    if (Declares(name)) return Add(name, Json(*from_.max_tokens), name);
    if (samples()) return {};
    if (!info_.decoupled) {
      return Refused(name, info_, "answers in one piece and has no input 'max_tokens'");
    }
    cuts_.tokens = from_.max_tokens;
    return {};
  }

  static Json Texts(const Json& value) { return value.is_array() ? value : Json::array({value}); }

  bool HasEchoInput() const {
    return Declares("exclude_input_in_output") || Declares("sampling_param_exclude_input_from_output");
  }
  // A template shows the tools to the model, whose process finds the calls in its text.
  bool RendersTools() const {
    return from_.route == OpenAiRoute::kChat && info_.openai.renders_chats &&
           info_.FindOutput("tool_calls") != nullptr;
  }

  // Adds inputs of Triton's frontend that have other names than fields.
  FieldFault AddSettings() {
    const Json* echo = FieldOf(from_.body, "echo");
    const bool echoes = echo != nullptr && echo->get<bool>();
    for (const std::string_view name :
         {"exclude_input_in_output", "sampling_param_exclude_input_from_output"}) {
      BRAID_RETURN_IF_FAULT(Add(name, Json(!echoes), "echo"));
    }
    for (const std::string_view name : {"return_num_input_tokens", "return_num_output_tokens"}) {
      BRAID_RETURN_IF_FAULT(Add(name, Json(true), name));
    }
    const Json* logprobs = FieldOf(from_.body, "logprobs");
    BRAID_RETURN_IF_FAULT(
        Add("return_logprobs", Json(logprobs != nullptr && *logprobs != false), "logprobs"));
    if (!samples()) return {};
    Json sampling = Json::object();
    for (const auto& [name, value] : from_.body.items()) {
      if (!value.is_null() && !IsOneOf(name, kOwn)) sampling[name] = value;
    }
    if (const Json* newer = FieldOf(sampling, "max_completion_tokens")) {
      const Json most = *newer;
      sampling["max_tokens"] = most;
    }
    return Add(kSampling, Json(DumpJson(sampling)), kSampling);
  }

  FieldFault AddPrompt() {
    const Json* prompt = FieldOf(from_.body, "prompt");
    const Json* text = prompt;
    if (prompt != nullptr && prompt->is_array() && prompt->size() == 1) text = &prompt->front();
    if (text == nullptr || !text->is_string()) {
      return InvalidField(
          std::string("'prompt' must be one text") +
              (prompt == nullptr ? "; it is missing"
                                 : ", but it is " + Shortened(DumpJson(*prompt), 80) +
                                       "; send one request for each text, and texts instead of tokens"),
          "prompt");
    }
    return Add(kPromptInput, *text, "prompt");
  }

  FieldFault AddChat() {
    const Json& messages = from_.body.at("messages");
    if (Declares(kMessagesInput)) {
      BRAID_RETURN_IF_FAULT(Add(kMessagesInput, Json(DumpJson(messages)), "messages"));
      if (info_.FindInput(kPromptInput)->optional) return {};
      return Add(kPromptInput, Json(LastText(messages)), "messages");
    }
    if (!info_.openai.renders_chats) {
      return Refused("messages", info_,
                     "has no input 'messages', and only Python models have a chat template; use "
                     "/v1/completions");
    }
    Json chat = Json::object();
    chat["messages"] = Json::array();
    for (size_t i = 0; i < messages.size(); ++i) {
      Json message = messages[i];
      if (const Json* content = FieldOf(message, "content")) {
        const std::optional<std::string> text = TextOfContent(*content);
        if (!text) {
          return Refused(FieldAt("messages", static_cast<int>(i)) + ".content", info_,
                         "takes texts only; parts of other types need an input 'messages'");
        }
        message["content"] = *text;
      }
      chat["messages"].push_back(std::move(message));
    }
    const Json* choice = FieldOf(from_.body, "tool_choice");
    const bool no_calls = choice != nullptr && *choice == "none";
    if (const Json* tools = FieldOf(from_.body, "tools"); tools != nullptr && !tools->empty() && !no_calls)
      chat["tools"] = *tools;
    if (const Json* more = FieldOf(from_.body, "chat_template_kwargs")) {
      if (!more->is_object())
        return InvalidField("'chat_template_kwargs' must be an object", "chat_template_kwargs");
      for (const auto& [name, value] : more->items()) {
        if (name != "tools" && !chat.contains(name)) chat[name] = value;
      }
    }
    request_.renders_chat = true;
    return Add(kPromptInput, Json(DumpJson(chat)), "messages");
  }

  static std::string LastText(const Json& messages) {
    for (auto message = messages.rbegin(); message != messages.rend(); ++message) {
      const Json* content = FieldOf(*message, "content");
      if (message->at("role") == "user" && content != nullptr) return TextOfContent(*content).value_or("");
    }
    return "";
  }

  const OpenAiRequest& from_;
  const ServableInfo& info_;
  BufferAllocator& allocator_;
  InferenceRequest& request_;
  TextCuts& cuts_;
};

}  // namespace

FieldFault AddParameter(const std::string& name, const Json& value, Parameters& parameters) {
  if (IsReservedParameter(name)) {
    return InvalidField("'" + Shortened(name) + "' is a reserved name of KServe's protocol", Shortened(name));
  }
  if (parameters.size() >= kMostParameters) {
    return InvalidField("the request has too many fields that are unknown to OpenAI's API", Shortened(name));
  }
  ParameterValue parameter;
  if (value.is_boolean()) {
    parameter = value.get<bool>();
  } else if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
    parameter = value.get<uint64_t>();
  } else if (value.is_number_integer()) {
    parameter = value.get<int64_t>();
  } else if (value.is_number()) {
    parameter = value.get<double>();
  } else {
    parameter = value.is_string() ? value.get<std::string>() : DumpJson(value);
  }
  parameters.emplace_back(name, std::move(parameter));
  return {};
}

FieldFault FillTextInputs(const OpenAiRequest& from, const ServableInfo& info, BufferAllocator& allocator,
                          InferenceRequest& request, TextCuts& cuts) {
  return Filler(from, info, allocator, request, cuts).Fill();
}

}  // namespace braid
