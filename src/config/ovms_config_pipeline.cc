#include <cstdint>
#include <limits>

#include "config/ovms_config_parts.h"

namespace braid {
namespace {

constexpr int64_t kMostPieces = 10000;

OvmsDataSource ReadSource(const Json& value, const std::string& path, JsonFaults& faults) {
  JsonObject object(value, path, faults);
  OvmsDataSource source{object.RequiredText("node_name").value_or(""),
                        object.RequiredText("data_item").value_or("")};
  object.Finish();
  return source;
}

// Reads a list of {"name": {"node_name": ..., "data_item": ...}}.
std::vector<OvmsConnection> ReadConnections(JsonObject& object, std::string_view key, JsonFaults& faults) {
  std::vector<OvmsConnection> connections;
  object.List(object.Require(key), key, [&](const Json& element, const std::string& place) {
    if (!element.is_object() || element.size() != 1) {
      return faults.Add(place,
                        "expected an object with one key, such as {\"name\": {\"node_name\": \"n\", "
                        "\"data_item\": \"i\"}}");
    }
    const auto only = element.items().begin();
    connections.push_back({only.key(), ReadSource(only.value(), JsonPath(place, only.key()), faults)});
  });
  return connections;
}

std::optional<int32_t> ReadDemultiplyCount(JsonObject& object, const std::string& whose,
                                           OvmsFindings& findings) {
  const auto count = object.Integer("demultiply_count", -1, kMostPieces);
  if (!count) return std::nullopt;
  if (*count != 0) return static_cast<int32_t>(*count);
  findings.warnings.push_back(whose + ": demultiply_count 0 is the old form of -1 (dynamic)");
  return -1;
}

OvmsNodeConfig ReadNode(const Json& value, const std::string& path, const std::string& pipeline,
                        OvmsFindings& findings) {
  JsonFaults& faults = findings.faults;
  JsonObject object(value, path, faults);
  OvmsNodeConfig node;
  node.name = object.RequiredText("name").value_or("");
  const std::string type = object.RequiredText("type").value_or("");
  const Json* model = object.Get("model_name");
  const Json* library = object.Get("library_name");
  if (type == "DL model") {
    node.type = OvmsNodeConfig::Type::kModel;
    node.model_name = object.RequiredText("model_name").value_or("");
    if (library != nullptr) object.Fault("library_name", "requires type \"custom\"");
  } else if (type == "custom") {
    node.type = OvmsNodeConfig::Type::kCustom;
    node.library_name = object.RequiredText("library_name").value_or("");
    if (model != nullptr) object.Fault("model_name", "requires type \"DL model\"");
  } else if (!type.empty()) {
    object.Fault("type", "expected \"DL model\" or \"custom\"");
  }
  node.version = object.Integer("version", 1, std::numeric_limits<int64_t>::max());
  if (const Json* params = object.Get("params")) {
    if (!params->is_object())
      object.Fault("params", "expected an object");
    else
      for (const auto& [key, element] : params->items()) {
        const std::string place = JsonPath(object.PathOf("params"), key);
        if (auto text = ReadJsonText(element, place, faults)) node.params.emplace_back(key, std::move(*text));
      }
  }
  node.inputs = ReadConnections(object, "inputs", faults);
  object.List(object.Require("outputs"), "outputs", [&](const Json& element, const std::string& place) {
    JsonObject output(element, place, faults);
    node.outputs.push_back(
        {output.RequiredText("data_item").value_or(""), output.RequiredText("alias").value_or("")});
    output.Finish();
  });
  node.demultiply_count =
      ReadDemultiplyCount(object, "pipeline '" + pipeline + "', node '" + node.name + "'", findings);
  node.gather_from_node = object.Text("gather_from_node");
  object.Finish();
  return node;
}

}  // namespace

OvmsPipelineConfig ReadOvmsPipeline(const Json& value, const std::string& path, OvmsFindings& findings) {
  JsonFaults& faults = findings.faults;
  JsonObject object(value, path, faults);
  OvmsPipelineConfig pipeline;
  pipeline.name = ReadServableName(object);
  object.List(object.Require("inputs"), "inputs", [&](const Json& element, const std::string& place) {
    if (auto text = ReadJsonText(element, place, faults)) pipeline.inputs.push_back(std::move(*text));
  });
  object.List(object.Require("nodes"), "nodes", [&](const Json& element, const std::string& place) {
    pipeline.nodes.push_back(ReadNode(element, place, pipeline.name, findings));
  });
  pipeline.outputs = ReadConnections(object, "outputs", faults);
  pipeline.demultiply_count = ReadDemultiplyCount(object, "pipeline '" + pipeline.name + "'", findings);
  pipeline.allow_auto_shape = object.Bool("allow_auto_shape").value_or(false);
  pipeline.convert_precision = object.Bool("convert_precision").value_or(false);
  object.Finish();
  return pipeline;
}

}  // namespace braid
