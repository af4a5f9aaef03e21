#include "protocols/kserve/trace_settings.h"

#include "base/json.h"
#include "base/utf8.h"
#include "protocols/json/json.h"

namespace braid {
namespace {

constexpr size_t kMaxValues = 16;

// A number may be given as a JSON number.
Result<std::string> Value(simdjson::dom::element element) {
  std::string_view text;
  if (!element.get_string().get(text)) return std::string(text);
  int64_t number = 0;
  if (!element.get_int64().get(number)) return std::to_string(number);
  return InternalError("attempt to access JSON non-string as string");
}

}  // namespace

Status CheckTraceModel(const ProtocolContext& context, const std::string& model) {
  if (context.tracer == nullptr) {
    return UnsupportedError("the trace extension is not supported by this server");
  }
  if (model.empty()) return OkStatus();
  for (const IndexEntry& entry : context.catalog.Index(false)) {
    if (entry.name == model) return OkStatus();
  }
  return context.catalog.Versions(model, -1).status();
}

std::string TraceSettingsJson(const TraceSettings& settings) {
  const Json json = {{"trace_level", settings.levels()},
                     {"trace_rate", std::to_string(settings.rate)},
                     {"trace_count", std::to_string(settings.count)},
                     {"log_frequency", std::to_string(settings.log_frequency)},
                     {"trace_file", settings.file},
                     {"trace_mode", settings.mode}};
  return DumpJson(json);
}

Result<TraceChanges> ReadTraceChanges(std::string_view body) {
  TraceChanges changes;
  if (body.find_first_not_of(" \t\r\n") == std::string_view::npos) return changes;
  simdjson::dom::parser parser;
  BRAID_ASSIGN_OR_RETURN(auto root, ParseJsonCopy(parser, body));
  BRAID_ASSIGN_OR_RETURN(auto object, JsonObject("request", root, kMaxJsonKeys));
  for (auto field : object) {
    auto& values = changes[std::string(field.key)];
    if (field.value.is_null()) continue;
    values.emplace();
    simdjson::dom::array list;
    if (field.value.get_array().get(list)) {
      BRAID_ASSIGN_OR_RETURN(std::string value, Value(field.value));
      values->push_back(std::move(value));
      continue;
    }
    for (simdjson::dom::element element : list) {
      BRAID_ASSIGN_OR_RETURN(std::string value, Value(element));
      if (values->size() >= kMaxValues) {
        return InvalidArgumentError("too many values for '" + Shortened(field.key) + "'");
      }
      values->push_back(std::move(value));
    }
  }
  return changes;
}

}  // namespace braid
