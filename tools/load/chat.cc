#include "load/chat.h"

#include <variant>
#include <vector>

#include "base/json.h"
#include "load/http_connection.h"

namespace braid::load {
namespace {

constexpr char kField[] = "JSON";

DataStep StepOf(const Json& fields) {
  DataStep step;
  for (const auto& [name, value] : fields.items()) step.inputs.push_back({name, kField, {}, DumpJson(value)});
  return step;
}

}  // namespace

std::string EncodeChat(const InferRequest& request) {
  Json body = {{"model", request.model}};
  for (const Tensor& field : request.inputs) body[field.name] = ParseJson(field.data);
  for (const auto& [name, value] : request.parameters) {
    body[name] = std::visit([](const auto& one) { return Json(one); }, value);
  }
  // A data file may name another model, or ask for no stream.
  body["model"] = request.model;
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  return DumpJson(body);
}

Result<ChatEvent> ReadChatEvent(std::string_view data) {
  ChatEvent event;
  if (data.starts_with("[DONE]")) return event;
  const Json parsed = ParseJson(data);
  if (!parsed.is_object()) return InternalError("malformed event: " + std::string(data.substr(0, 200)));
  if (const auto error = parsed.find("error"); error != parsed.end() && !error->is_null())
    return InternalError(ErrorText(data));
  try {
    if (const auto usage = parsed.find("usage"); usage != parsed.end() && usage->is_object())
      event.tokens = usage->value("completion_tokens", int64_t{0});
    for (const Json& choice : parsed.value("choices", Json::array())) {
      for (const char* const part : {"delta", "message"}) {
        const auto message = choice.find(part);
        if (message == choice.end()) continue;
        for (const char* const key : {"reasoning_content", "content"}) {
          if (const auto text = message->find(key); text != message->end() && text->is_string())
            event.text += text->get<std::string>();
        }
      }
    }
  } catch (const Json::exception& error) {
    return InternalError(std::string("malformed event: ") + error.what());
  }
  return event;
}

DataStep MakeChatStep(const std::string& message) {
  return StepOf({{"messages", Json::array({{{"role", "user"}, {"content", message}}})}});
}

Result<DataSet> ReadChatFile(const std::string& text, const std::string& name) {
  const Result<Json> file = CheckedJson(text);
  if (!file.ok()) return file.status().WithPrefix(name + ": ");
  if (!file->is_object() || !file->contains("data") || !file->at("data").is_array() ||
      file->at("data").empty())
    return InvalidArgumentError(name + ": a data file must be an object with the list \"data\"");
  DataSet set;
  for (size_t i = 0; i < file->at("data").size(); ++i) {
    const Json* fields = &file->at("data")[i];
    if (fields->is_object() && fields->contains("payload") && fields->at("payload").is_array() &&
        fields->at("payload").size() == 1) {
      fields = &fields->at("payload").front();
    }
    if (!fields->is_object() || !fields->contains("messages")) {
      return InvalidArgumentError(name + ": data[" + std::to_string(i) +
                                  "] must be an object of the request's fields, with \"messages\"");
    }
    set.streams.push_back({StepOf(*fields)});
  }
  return set;
}

Status CheckChatModel(Client& client, const std::string& model) {
  const Result<std::string> answer = client.AskHttp("GET", "/v1/models");
  if (!answer.ok()) {
    const bool refused = answer.status().message().starts_with("HTTP");
    return answer.status().WithPrefix(refused ? "the server does not list models at /v1/models: " : "");
  }
  std::vector<std::string> names;
  try {
    const Json parsed = ParseJson(*answer);
    for (const Json& each : parsed.at("data")) names.push_back(each.at("id").get<std::string>());
  } catch (const Json::exception& error) {
    return InternalError(std::string("the list at /v1/models is not OpenAI's: ") + error.what());
  }
  for (const std::string& name : names) {
    if (name == model) return OkStatus();
  }
  return NotFoundError("model " + model + " is not served by OpenAI's API" +
                       (names.empty() ? "; no model is" : "; served: " + ListNames(names)));
}

}  // namespace braid::load
