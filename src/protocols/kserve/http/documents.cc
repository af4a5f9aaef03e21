#include "protocols/kserve/http/documents.h"

#include <limits>
#include <optional>

#include "base/json.h"
#include "base/utf8.h"
#include "protocols/json/json.h"
#include "protocols/kserve/control.h"

namespace braid {
namespace {

// Returns the fields of an optional body, which must be an object.
Result<std::optional<simdjson::dom::object>> ReadBody(simdjson::dom::parser& parser, std::string_view body) {
  if (body.find_first_not_of(" \t\r\n") == std::string_view::npos)
    return std::optional<simdjson::dom::object>();
  BRAID_ASSIGN_OR_RETURN(auto root, ParseJsonCopy(parser, body));
  BRAID_ASSIGN_OR_RETURN(auto object, JsonObject("request", root, kMaxJsonKeys));
  return std::optional<simdjson::dom::object>(object);
}

// Returns the fields of "parameters" in an optional body.
Result<std::optional<simdjson::dom::object>> ReadBodyParameters(simdjson::dom::parser& parser,
                                                                std::string_view body) {
  BRAID_ASSIGN_OR_RETURN(auto object, ReadBody(parser, body));
  if (!object) return object;
  simdjson::dom::element parameters;
  if (object->at_key("parameters").get(parameters)) return std::optional<simdjson::dom::object>();
  BRAID_ASSIGN_OR_RETURN(auto fields, JsonObject("parameters", parameters, kMaxJsonKeys));
  return std::optional<simdjson::dom::object>(fields);
}

LogChanges::Value ValueOf(simdjson::dom::element element) {
  bool flag = false;
  uint64_t number = 0;
  std::string_view text;
  if (!element.get_bool().get(flag)) return flag;
  if (!element.get_string().get(text)) return text;
  if (!element.get_uint64().get(number) && number <= std::numeric_limits<int>::max()) return number;
  return {};
}

// Error texts of the logging extension name only the kind.
Status WrongJsonKind(std::string_view, size_t kind) {
  constexpr const char* kKinds[] = {"", "boolean", "unsigned-integer", "string"};
  const std::string name = kKinds[kind];
  return InternalError("attempt to access JSON non-" + name + " as " + name);
}

Status WrongReady() { return InvalidArgumentError("Invalid value for 'ready': expected a boolean"); }

// Returns whether "ready" in an unreadable body is visibly not a boolean. The body may be nested deeper than
// the parser allows.
bool HasWrongReady(std::string_view body) {
  const simdjson::padded_string text(body);
  simdjson::ondemand::parser parser;
  simdjson::ondemand::document document;
  simdjson::ondemand::object object;
  simdjson::ondemand::value ready;
  simdjson::ondemand::json_type type{};
  if (parser.iterate(text).get(document) || document.get_object().get(object)) return false;
  if (object.find_field_unordered("ready").get(ready) || ready.type().get(type)) return false;
  return type != simdjson::ondemand::json_type::boolean;
}

}  // namespace

std::string LoggingJson(const Logger& log) {
  return DumpJson(Json{{"log_file", log.file()},
                       {"log_info", log.enabled(LogLevel::kInfo)},
                       {"log_warning", log.enabled(LogLevel::kWarning)},
                       {"log_error", log.enabled(LogLevel::kError)},
                       {"log_verbose_level", log.verbose_level()},
                       {"log_format", LogFormatName(log.format())}});
}

Result<bool> ReadIndexRequest(std::string_view body) {
  simdjson::dom::parser parser;
  const auto object_read = ReadBody(parser, body);
  if (!object_read.ok()) return HasWrongReady(body) ? WrongReady() : object_read.status();
  const auto& object = *object_read;
  simdjson::dom::element ready;
  if (!object || object->at_key("ready").get(ready)) return false;
  bool value = false;
  if (ready.get_bool().get(value)) return WrongReady();
  return value;
}

Result<LoadRequest> ReadLoadRequest(std::string model_name, std::string_view body) {
  LoadRequest request;
  request.model_name = std::move(model_name);
  simdjson::dom::parser parser;
  BRAID_ASSIGN_OR_RETURN(auto parameters, ReadBodyParameters(parser, body));
  if (!parameters) return request;
  constexpr std::string_view kFile = "file:";
  for (auto field : *parameters) {
    if (field.key == "config") {
      BRAID_ASSIGN_OR_RETURN(std::string_view config, JsonString("config", field.value));
      request.config_json = config;
    } else if (field.key.substr(0, kFile.size()) == kFile) {
      BRAID_ASSIGN_OR_RETURN(std::string_view text, JsonString(field.key, field.value));
      auto contents = DecodeBase64(text);
      if (!contents)
        return InvalidArgumentError("parameter '" + Shortened(field.key) + "' is not valid base64");
      request.files.emplace(field.key.substr(kFile.size()), std::move(*contents));
    } else {
      return InternalError("unexpected error on creating Triton parameter");
    }
  }
  return request;
}

Result<bool> ReadUnloadRequest(std::string_view body) {
  simdjson::dom::parser parser;
  BRAID_ASSIGN_OR_RETURN(auto parameters, ReadBodyParameters(parser, body));
  simdjson::dom::element value;
  if (!parameters || parameters->at_key("unload_dependents").get(value)) return false;
  return JsonBool("unload_dependents", value);
}

Status ChangeLogging(std::string_view body, Logger& log) {
  simdjson::dom::parser parser;
  BRAID_ASSIGN_OR_RETURN(auto object, ReadBody(parser, body));
  if (!object) return OkStatus();
  LogChanges changes;
  for (auto field : *object) {
    BRAID_RETURN_IF_ERROR(changes.Read(field.key, ValueOf(field.value), &WrongJsonKind));
  }
  changes.Apply(log);
  return OkStatus();
}

}  // namespace braid
