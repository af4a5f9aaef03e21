#include "protocols/openai/errors.h"

#include "base/json.h"
#include "base/utf8.h"

namespace braid {
namespace {

struct ErrorKind {
  std::string_view type;
  std::string_view code;
};

ErrorKind ErrorKindOf(unsigned status) {
  switch (status) {
    case 401:
      return {"authentication_error", "invalid_api_key"};
    case 403:
      return {"permission_error", "permission_denied"};
    case 429:
      return {"rate_limit_error", "rate_limit_exceeded"};
    default:
      return {status >= 500 ? "server_error" : "invalid_request_error", ""};
  }
}

void AppendTextOrNull(std::string& out, std::string_view text) {
  if (text.empty()) {
    out += "null";
  } else {
    AppendJsonString(out, ToUtf8(text));
  }
}

}  // namespace

std::string OpenAiErrorJson(unsigned status, std::string_view message, std::string_view param,
                            std::string_view code) {
  const ErrorKind kind = ErrorKindOf(status);
  std::string json = "{\"error\":{\"message\":";
  AppendJsonString(json, ToUtf8(message));
  json.append(",\"type\":\"").append(kind.type).append("\",\"param\":");
  AppendTextOrNull(json, param);
  json += ",\"code\":";
  AppendTextOrNull(json, code.empty() ? kind.code : code);
  json += "}}";
  return json;
}

HttpResponse OpenAiError(const Status& status, std::string_view param, std::string_view code) {
  HttpResponse response = JsonResponse(OpenAiErrorJson(HttpStatusOf(status), status.message(), param, code));
  response.status = HttpStatusOf(status);
  // Clients repeat requests that failed with 5xx. Only a server that is busy or loading may do better then.
  if (response.status >= 500 && response.status != 503)
    response.headers.emplace_back("x-should-retry", "false");
  return response;
}

HttpResponse InOpenAiForm(HttpResponse response) {
  if (response.status < 400 || !response.tail.empty()) return response;
  const Json body = ParseJson(response.body);
  if (!body.is_object() || !body.contains("error") || !body.at("error").is_string()) return response;
  response.body = OpenAiErrorJson(response.status, body.at("error").get<std::string>());
  return response;
}

}  // namespace braid
