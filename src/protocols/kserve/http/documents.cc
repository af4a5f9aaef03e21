#include "protocols/kserve/http/documents.h"

#include <limits>
#include <optional>

#include "base/json.h"
#include "base/utf8.h"
#include "protocols/json/json.h"

namespace braid {
namespace {

Json TensorsJson(const std::vector<TensorSpec>& specs) {
  Json tensors = Json::array();
  for (const TensorSpec& spec : specs) {
    Json shape = Json::array();
    for (int64_t dim : spec.shape) shape.push_back(dim);
    tensors.push_back({{"name", spec.name}, {"datatype", WireName(spec.type)}, {"shape", std::move(shape)}});
  }
  return tensors;
}

Json DurationJson(const DurationStatistic& duration) {
  return {{"count", duration.count}, {"ns", duration.ns}};
}

// The fields of an optional body, whose whole is an object.
Result<std::optional<simdjson::dom::object>> ReadBody(simdjson::dom::parser& parser, std::string_view body) {
  if (body.find_first_not_of(" \t\r\n") == std::string_view::npos)
    return std::optional<simdjson::dom::object>();
  BRAID_ASSIGN_OR_RETURN(auto root, ParseJsonCopy(parser, body));
  BRAID_ASSIGN_OR_RETURN(auto object, JsonObject("request", root, kMaxJsonKeys));
  return std::optional<simdjson::dom::object>(object);
}

// The fields of "parameters" in an optional body.
Result<std::optional<simdjson::dom::object>> ReadBodyParameters(simdjson::dom::parser& parser,
                                                                std::string_view body) {
  BRAID_ASSIGN_OR_RETURN(auto object, ReadBody(parser, body));
  if (!object) return object;
  simdjson::dom::element parameters;
  if (object->at_key("parameters").get(parameters)) return std::optional<simdjson::dom::object>();
  BRAID_ASSIGN_OR_RETURN(auto fields, JsonObject("parameters", parameters, kMaxJsonKeys));
  return std::optional<simdjson::dom::object>(fields);
}

// Texts of the logging extension name the kind alone.
Status KindError(std::string_view kind) {
  return InternalError("attempt to access JSON non-" + std::string(kind) + " as " + std::string(kind));
}

Status WrongReady() { return InvalidArgumentError("Invalid value for 'ready': expected a boolean"); }

// Whether "ready" of a body that could not be read begins as no boolean does: it may be nested deeper than
// JSON is read.
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

std::string_view LogFormatName(LogFormat format) {
  return format == LogFormat::kIso8601 ? "ISO8601" : "default";
}

}  // namespace

std::string ServerMetadataJson(const ProtocolContext& context) {
  return DumpJson(Json{{"name", context.server_name},
                       {"version", context.server_version},
                       {"extensions", context.extensions}});
}

std::string ModelMetadataJson(const ServableInfo& info, std::span<const int64_t> versions) {
  Json texts = Json::array();
  for (int64_t version : versions) texts.push_back(std::to_string(version));
  return DumpJson(Json{{"name", info.name},
                       {"versions", std::move(texts)},
                       {"platform", info.platform},
                       {"inputs", TensorsJson(info.inputs)},
                       {"outputs", TensorsJson(info.outputs)}});
}

std::string StatisticsJson(std::span<const std::shared_ptr<Servable>> servables) {
  Json models = Json::array();
  for (const auto& servable : servables) {
    const StatisticsSnapshot snapshot = servable->statistics().Snapshot();
    Json batches = Json::array();
    for (const auto& [rows, batch] : snapshot.batches) {
      batches.push_back({{"batch_size", rows},
                         {"compute_input", DurationJson(batch.compute_input)},
                         {"compute_infer", DurationJson(batch.compute_infer)},
                         {"compute_output", DurationJson(batch.compute_output)}});
    }
    Json responses = Json::object();
    for (const auto& [index, response] : snapshot.responses) {
      responses[std::to_string(index)] = {{"compute_infer", DurationJson(response.compute_infer)},
                                          {"compute_output", DurationJson(response.compute_output)},
                                          {"success", DurationJson(response.success)},
                                          {"fail", DurationJson(response.fail)},
                                          {"empty_response", DurationJson(response.empty_response)},
                                          {"cancel", DurationJson(DurationStatistic())}};
    }
    models.push_back({{"name", servable->info().name},
                      {"version", std::to_string(servable->info().version)},
                      {"last_inference", snapshot.last_inference_ms},
                      {"inference_count", snapshot.inference_count},
                      {"execution_count", snapshot.execution_count},
                      {"inference_stats",
                       {{"success", DurationJson(snapshot.success)},
                        {"fail", DurationJson(snapshot.fail)},
                        {"queue", DurationJson(snapshot.queue)},
                        {"compute_input", DurationJson(snapshot.compute_input)},
                        {"compute_infer", DurationJson(snapshot.compute_infer)},
                        {"compute_output", DurationJson(snapshot.compute_output)},
                        {"cache_hit", DurationJson(snapshot.cache_hit)},
                        {"cache_miss", DurationJson(snapshot.cache_miss)}}},
                      {"response_stats", std::move(responses)},
                      {"batch_stats", std::move(batches)},
                      {"memory_usage", Json::array()}});
  }
  Json document = Json::object();
  document["model_stats"] = std::move(models);
  return DumpJson(document);
}

std::string RepositoryIndexJson(std::span<const IndexEntry> index) {
  Json entries = Json::array();
  for (const IndexEntry& entry : index) {
    Json line = {{"name", entry.name}};
    if (entry.version) line["version"] = std::to_string(*entry.version);
    if (entry.version || !entry.reason.empty()) line["state"] = VersionStateName(entry.state);
    if (!entry.reason.empty()) line["reason"] = entry.reason;
    entries.push_back(std::move(line));
  }
  return DumpJson(entries);
}

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
  std::optional<bool> levels[3];
  std::optional<int> verbose_level;
  std::optional<LogFormat> format;
  for (auto field : *object) {
    std::optional<LogLevel> level;
    if (field.key == "log_info") level = LogLevel::kInfo;
    if (field.key == "log_warning") level = LogLevel::kWarning;
    if (field.key == "log_error") level = LogLevel::kError;
    if (level) {
      bool on = false;
      if (field.value.get_bool().get(on)) return KindError("boolean");
      levels[static_cast<int>(*level)] = on;
    } else if (field.key == "log_verbose_level") {
      uint64_t number = 0;
      if (field.value.get_uint64().get(number) || number > std::numeric_limits<int>::max()) {
        return KindError("unsigned-integer");
      }
      verbose_level = static_cast<int>(number);
    } else if (field.key == "log_format") {
      std::string_view name;
      if (field.value.get_string().get(name)) return KindError("string");
      if (name != "default" && name != "ISO8601") {
        return UnavailableError("invalid argument for --log_format, got: " + Shortened(name));
      }
      format = name == "default" ? LogFormat::kDefault : LogFormat::kIso8601;
    } else if (field.key == "log_file") {
      return UnsupportedError("log file location can not be updated through network protocol");
    } else {
      return InvalidArgumentError("unknown log setting '" + Shortened(field.key) + "'");
    }
  }
  for (LogLevel level : {LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError}) {
    if (auto on = levels[static_cast<int>(level)]) log.set_enabled(level, *on);
  }
  if (verbose_level) log.set_verbose_level(*verbose_level);
  if (format) log.set_format(*format);
  return OkStatus();
}

}  // namespace braid
