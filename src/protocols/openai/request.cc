#include "protocols/openai/request.h"

#include <algorithm>
#include <array>

#include "base/utf8.h"

namespace braid {
namespace {

constexpr size_t kMostShown = 80;
// The text is searched for each stop text, on a thread that all requests of an instance share.
constexpr size_t kMostStops = 16;
constexpr size_t kMostStopBytes = 256;

// Whether a field has a valid value, and the expected values in words.
struct Rule {
  std::string_view name;
  bool (*good)(const Json& value);
  std::string_view expected;
};

template <int64_t least, int64_t most>
bool IsInteger(const Json& value) {
  if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) return false;
  return value.is_number_integer() && value.get<int64_t>() >= least && value.get<int64_t>() <= most;
}

template <int least, int most>
bool IsNumber(const Json& value) {
  return value.is_number() && value.get<double>() >= least && value.get<double>() <= most;
}

bool IsBool(const Json& value) { return value.is_boolean(); }
bool IsText(const Json& value) { return value.is_string(); }
bool IsObject(const Json& value) { return value.is_object(); }
bool IsList(const Json& value) { return value.is_array(); }
bool IsStop(const Json& value) {
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    return !text.empty() && text.size() <= kMostStopBytes;
  }
  return value.is_array() && value.size() <= kMostStops &&
         std::all_of(value.begin(), value.end(),
                     [](const Json& each) { return each.is_string() && IsStop(each); });
}
bool IsFormat(const Json& value) { return value == "float" || value == "base64"; }
bool IsTools(const Json& value) {
  return value.is_array() && std::all_of(value.begin(), value.end(), IsObject);
}
bool IsChoice(const Json& value) { return value.is_string() || value.is_object(); }

constexpr Rule kCommon[] = {
    {"stream", IsBool, "true or false"},
    {"stream_options", IsObject, "an object"},
    {"n", IsInteger<1, 128>, "an integer from 1 to 128"},
    {"max_tokens", IsInteger<1, INT64_MAX>, "a positive integer"},
    {"temperature", IsNumber<0, 2>, "a number from 0 to 2"},
    {"top_p", IsNumber<0, 1>, "a number from 0 to 1"},
    {"stop", IsStop, "a text of 1 to 256 bytes, or a list of at most 16 of them"},
    {"frequency_penalty", IsNumber<-2, 2>, "a number from -2 to 2"},
    {"presence_penalty", IsNumber<-2, 2>, "a number from -2 to 2"},
    {"seed", IsInteger<INT64_MIN, INT64_MAX>, "an integer"},
    {"user", IsText, "a text"},
    {"logit_bias", IsObject, "an object"},
    {"max_completion_tokens", IsInteger<1, INT64_MAX>, "a positive integer"},
    {"echo", IsBool, "true or false"},
};
constexpr Rule kChat[] = {
    {"messages", IsList, "a list of messages"},
    {"logprobs", IsBool, "true or false"},
    {"top_logprobs", IsInteger<0, 20>, "an integer from 0 to 20"},
    {"tools", IsTools, "a list of objects"},
    {"tool_choice", IsChoice, "a text or an object"},
    {"parallel_tool_calls", IsBool, "true or false"},
    {"response_format", IsObject, "an object"},
};
constexpr Rule kCompletion[] = {
    {"logprobs", IsInteger<0, 5>, "an integer from 0 to 5"},
    {"best_of", IsInteger<1, 128>, "an integer from 1 to 128"},
    {"suffix", IsText, "a text"},
};
constexpr Rule kEmbedding[] = {
    {"encoding_format", IsFormat, "\"float\" or \"base64\""},
    {"dimensions", IsInteger<1, INT32_MAX>, "a positive integer"},
    {"user", IsText, "a text"},
};

FieldFault Wrong(std::string_view field, std::string_view expected, const Json& value) {
  return InvalidField("'" + std::string(field) + "' must be " + std::string(expected) + ", but it is " +
                          Shortened(DumpJson(value), kMostShown),
                      std::string(field));
}

FieldFault Missing(std::string_view field, std::string_view expected) {
  return InvalidField("'" + std::string(field) + "' is missing; it must be " + std::string(expected),
                      std::string(field));
}

template <size_t count>
FieldFault CheckFields(const Json& body, const Rule (&rules)[count]) {
  for (const Rule& rule : rules) {
    const Json* value = FieldOf(body, rule.name);
    if (value != nullptr && !rule.good(*value)) return Wrong(rule.name, rule.expected, *value);
  }
  return {};
}

bool IsRole(const Json& role) {
  static constexpr std::array kRoles = {"system", "developer", "user", "assistant", "tool", "function"};
  return std::any_of(kRoles.begin(), kRoles.end(), [&](const char* each) { return role == each; });
}

bool IsToolCall(const Json& call) {
  const Json* function = call.is_object() ? FieldOf(call, "function") : nullptr;
  return function != nullptr && function->is_object();
}

FieldFault CheckMessage(const Json& message, const std::string& place) {
  if (!message.is_object()) return Wrong(place, "an object with role and content", message);
  const Json* role = FieldOf(message, "role");
  if (role == nullptr) return Missing(place + ".role", "the name of a role");
  if (!IsRole(*role)) {
    return Wrong(place + ".role", "system, developer, user, assistant, tool or function", *role);
  }
  if (const Json* calls = FieldOf(message, "tool_calls");
      calls != nullptr && !(calls->is_array() && std::all_of(calls->begin(), calls->end(), IsToolCall))) {
    return Wrong(place + ".tool_calls", "a list of objects with 'function', an object", *calls);
  }
  const Json* content = FieldOf(message, "content");
  // An assistant's message with tool calls needs no text.
  if (content == nullptr) {
    return *role == "assistant" ? FieldFault() : Missing(place + ".content", "a text or a list of parts");
  }
  if (content->is_string()) return {};
  if (!content->is_array()) return Wrong(place + ".content", "a text or a list of parts", *content);
  for (size_t i = 0; i < content->size(); ++i) {
    const Json& part = (*content)[i];
    const std::string at = FieldAt(place + ".content", static_cast<int>(i));
    const Json* type = part.is_object() ? FieldOf(part, "type") : nullptr;
    if (type == nullptr || !type->is_string()) return Wrong(at, "an object with a type", part);
    if (*type != "text") continue;
    const Json* text = FieldOf(part, "text");
    if (text == nullptr || !text->is_string()) return Wrong(at, "an object with a text", part);
  }
  return {};
}

FieldFault CheckMessages(const Json& body) {
  const Json* messages = FieldOf(body, "messages");
  if (messages == nullptr) return Missing("messages", "a list of messages");
  if (messages->empty()) return Wrong("messages", "a list of at least one message", *messages);
  for (size_t i = 0; i < messages->size(); ++i) {
    BRAID_RETURN_IF_FAULT(CheckMessage((*messages)[i], FieldAt("messages", static_cast<int>(i))));
  }
  return {};
}

FieldFault ReadStreamOptions(const Json& body, OpenAiRequest& request) {
  const Json* options = FieldOf(body, "stream_options");
  if (options == nullptr) return {};
  if (!request.stream) {
    return InvalidField("'stream_options' needs \"stream\": true", "stream_options");
  }
  const Json* usage = FieldOf(*options, "include_usage");
  if (usage == nullptr) return {};
  if (!usage->is_boolean()) return Wrong("stream_options.include_usage", "true or false", *usage);
  request.include_usage = usage->get<bool>();
  return {};
}

// Measures the work of building a Json: each member is compared with those before it in its object.
class MemberWork final : public JsonEvents {
 public:
  static constexpr uint64_t kMost = 20'000'000;

  bool start_object(std::size_t) override {
    members_.push_back(0);
    return true;
  }
  bool key(std::string&) override { return (work_ += members_.back()++) <= kMost; }
  bool end_object() override {
    members_.pop_back();
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }
  bool too_much() const { return work_ > kMost; }

 private:
  std::vector<uint64_t> members_;  // so far, of the objects that are open
  uint64_t work_ = 0;
};

FieldFault ReadGeneration(const Json& body, OpenAiRequest& request) {
  if (const Json* stream = FieldOf(body, "stream")) request.stream = stream->get<bool>();
  BRAID_RETURN_IF_FAULT(ReadStreamOptions(body, request));
  if (const Json* choices = FieldOf(body, "n")) request.choices = choices->get<int64_t>();
  for (const char* name : {"max_tokens", "max_completion_tokens"}) {
    if (const Json* most = FieldOf(body, name)) request.max_tokens = most->get<int64_t>();
  }
  if (const Json* stop = FieldOf(body, "stop")) {
    if (stop->is_string()) {
      request.stop = {stop->get<std::string>()};
    } else {
      request.stop = stop->get<std::vector<std::string>>();
    }
  }
  return {};
}

}  // namespace

const Json* FieldOf(const Json& object, std::string_view name) {
  const auto found = object.find(std::string(name));
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::optional<std::string> TextOfContent(const Json& content) {
  if (content.is_string()) return content.get<std::string>();
  std::string text;
  for (const Json& part : content) {
    if (part.at("type") != "text") return std::nullopt;
    text += part.at("text").get_ref<const std::string&>();
  }
  return text;
}

void IgnoreFields(std::span<const std::string> names, OpenAiRequest& request) {
  if (names.empty()) return;
  for (const std::string& name : names) request.body.erase(name);
  if (request.route == OpenAiRoute::kEmbedding) return;
  request.stop.clear();
  request.max_tokens.reset();
  request.choices = 1;
  (void)ReadGeneration(request.body, request);  // its values are valid
}

FieldFault ReadOpenAiRequest(OpenAiRoute route, std::string_view text, OpenAiRequest& request) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) {
    return InvalidField("the body must be JSON without a byte order mark", "");
  }
  MemberWork work;
  (void)ReadJson(text, work);
  if (work.too_much()) return InvalidField("the body has objects with too many members", "");
  auto parsed = CheckedJson(text);
  if (!parsed.ok()) {
    // The parser's own name of the fault is of no use to clients.
    const std::string& why = parsed.status().message();
    const size_t name = why.starts_with('[') ? why.find("] ") : std::string::npos;
    return InvalidField("the body is not JSON: " + (name == std::string::npos ? why : why.substr(name + 2)),
                        "");
  }
  const Json& body = *parsed;
  if (!body.is_object()) return InvalidField("the body must be a JSON object", "");
  const Json* model = FieldOf(body, "model");
  if (model == nullptr) return Missing("model", "the name of a model");
  if (!model->is_string() || *model == "") return Wrong("model", "the name of a model", *model);
  request.route = route;
  request.model = model->get<std::string>();
  if (route == OpenAiRoute::kEmbedding) {
    BRAID_RETURN_IF_FAULT(CheckFields(body, kEmbedding));
  } else {
    BRAID_RETURN_IF_FAULT(CheckFields(body, kCommon));
    if (route == OpenAiRoute::kChat) {
      BRAID_RETURN_IF_FAULT(CheckFields(body, kChat));
      BRAID_RETURN_IF_FAULT(CheckMessages(body));
    } else {
      BRAID_RETURN_IF_FAULT(CheckFields(body, kCompletion));
    }
    BRAID_RETURN_IF_FAULT(ReadGeneration(body, request));
  }
  request.body = *std::move(parsed);
  return {};
}

}  // namespace braid
