#include <algorithm>
#include <cctype>
#include <functional>
#include <limits>

#include "base/json.h"
#include "config/ovms_config_parts.h"
#include "config/ovms_values.h"
#include "config/storage_url.h"

namespace braid {
namespace {

constexpr int64_t kAnyInteger = std::numeric_limits<int64_t>::max();
constexpr int64_t kMostRequests = 100000;
constexpr int64_t kMostSequences = std::numeric_limits<uint32_t>::max();

// Reads one entry. Wrong types and ranges are faults of the file, and invalid values are faults of the entry.
class ModelReader {
 public:
  ModelReader(const Json& value, const std::string& path, OvmsFindings& findings, JsonFaults& own)
      : object_(value, path, findings.faults), findings_(findings), own_(own) {}

  OvmsModelConfig Read(const std::string& folder) {
    model_.name = ReadServableName(object_);
    ReadPaths(folder);
    ReadTensors();
    ReadExecution();
    ReadVersionPolicy();
    ReadStateful();
    if (object_.Get("custom_loader_options") != nullptr) {
      findings_.unsupported.Add(object_.PathOf("custom_loader_options"), "custom loaders are not supported");
    }
    object_.Finish();
    return std::move(model_);
  }

 private:
  void ReadPaths(const std::string& folder) {
    const std::string given = object_.Text("base_path").value_or("");
    if (IsUrl(given)) {
      auto url = ParseStorageUrl(given);
      if (!url.ok()) own_.Add(object_.PathOf("base_path"), url.status().message());
      model_.base_path = url.ok() ? url->text : given;
    } else {
      model_.base_path = OvmsAbsolutePath(given.empty() ? model_.name : given, folder);
    }
    model_.graph_path = object_.Text("graph_path").value_or("");
    model_.subconfig = object_.Text("subconfig").value_or("");
  }

  // Reads a text, or an object with a text for each tensor. The object may also be given as text.
  void ReadByTensor(std::string_view key,
                    const std::function<Status(const std::string& tensor, const std::string& text)>& set) {
    const Json* value = object_.Get(key);
    if (value == nullptr) return;
    const std::string path = object_.PathOf(key);
    auto apply = [&](const std::string& tensor, const std::string& text, const std::string& place) {
      if (const Status status = set(tensor, text); !status.ok()) own_.Add(place, status.message());
    };
    auto apply_object = [&](const Json& object, JsonFaults& faults) {
      for (const auto& [tensor, element] : object.items()) {
        const std::string place = JsonPath(path, tensor);
        if (tensor.empty()) faults.Add(path, "the name of a tensor is empty");
        if (const auto text = ReadJsonText(element, place, faults)) apply(tensor, *text, place);
      }
    };
    if (value->is_object()) return apply_object(*value, findings_.faults);
    if (!value->is_string()) {
      return findings_.faults.Add(path, "expected a string, or an object with a string for each tensor");
    }
    const std::string text = value->get<std::string>();
    const size_t begin = text.find_first_not_of(" \t\r\n");
    if (begin == std::string::npos || text[begin] != '{') return apply("", text, path);
    JsonFaults faults;
    const auto inside = ParseJsonText(text, faults);
    if (!inside.ok()) return own_.Add(path, inside.status().message());
    apply_object(*inside, faults);
    for (const JsonFault& fault : faults.all()) own_.Add(path, fault.what);
  }

  template <class Value>
  std::function<Status(const std::string&, const std::string&)> Into(
      std::map<std::string, Value>& values, Result<Value> (*parse)(std::string_view)) {
    return [&values, parse](const std::string& tensor, const std::string& text) {
      auto value = parse(text);
      if (!value.ok()) return value.status();
      values[tensor] = std::move(value).value();
      return OkStatus();
    };
  }

  void ReadTensors() {
    ReadByTensor("shape", Into(model_.shapes, &ParseOvmsShape));
    ReadByTensor("layout", Into(model_.layouts, &ParseOvmsLayout));
    ReadByTensor("precision", Into(model_.precisions, &ParseOvmsPrecision));
    ReadNumbers("mean", model_.mean);
    ReadNumbers("scale", model_.scale);
    if (std::find(model_.scale.begin(), model_.scale.end(), 0.0) != model_.scale.end()) {
      own_.Add(object_.PathOf("scale"), "a scale of 0 is invalid: values are divided by it");
    }
    if (const auto text = object_.Text("color_format")) {
      auto format = ParseOvmsColorFormat(*text);
      if (format.ok()) {
        model_.color_format = std::move(format).value();
      } else {
        own_.Add(object_.PathOf("color_format"), format.status().message());
      }
    }
    ReadBatchSize();
  }

  void ReadBatchSize() {
    const Json* value = object_.Get("batch_size");
    if (value == nullptr) return;
    const std::string path = object_.PathOf("batch_size");
    if (value->is_number()) {
      const auto number = ReadJsonInteger(*value, 0, kAnyInteger, path, findings_.faults);
      if (number && *number > 0) model_.batch_size = OvmsBatchSize{false, {*number, *number}};
    } else if (const auto text = ReadJsonText(*value, path, findings_.faults); text && *text != "0") {
      auto size = ParseOvmsBatchSize(*text);
      if (size.ok()) {
        model_.batch_size = std::move(size).value();
      } else {
        own_.Add(path, size.status().message());
      }
    }
    if (model_.batch_size && !model_.shapes.empty()) {
      findings_.warnings.push_back("model '" + model_.name +
                                   "': batch_size has no effect because the entry has a shape");
    }
  }

  // Reads a number, a list of numbers, or a text with either.
  void ReadNumbers(std::string_view key, std::vector<double>& numbers) {
    const Json* value = object_.Get(key);
    if (value == nullptr) return;
    if (value->is_string()) {
      auto parsed = ParseOvmsNumbers(value->get<std::string>());
      if (!parsed.ok()) return own_.Add(object_.PathOf(key), parsed.status().message());
      numbers = std::move(parsed).value();
      return;
    }
    if (value->is_number()) {
      numbers = {value->get<double>()};
      return;
    }
    const bool all =
        value->is_array() && !value->empty() &&
        std::all_of(value->begin(), value->end(), [](const Json& one) { return one.is_number(); });
    if (!all) return object_.Fault(key, "expected a number, a list of numbers, or a string of numbers");
    for (const Json& one : *value) numbers.push_back(one.get<double>());
  }

  void ReadExecution() {
    model_.nireq = static_cast<uint32_t>(object_.Integer("nireq", 0, kMostRequests).value_or(0));
    if (auto device = object_.Text("target_device")) {
      if (device->empty()) object_.Fault("target_device", "must not be empty");
      model_.target_device = std::move(*device);
    }
    model_.allow_cache = object_.Bool("allow_cache").value_or(true);
    model_.isolate = object_.Bool("isolate");
    const Json* plugin = object_.Get("plugin_config");
    if (plugin == nullptr) return;
    const std::string path = object_.PathOf("plugin_config");
    if (!plugin->is_object()) return findings_.faults.Add(path, "expected an object");
    for (const auto& [key, value] : plugin->items()) {
      auto& property = model_.plugin_config[key];
      if (value.is_string()) {
        property = value.get<std::string>();
      } else if (value.is_boolean()) {
        property = value.get<bool>();
      } else if (value.is_number_integer()) {
        property = ReadJsonInteger(value, std::numeric_limits<int64_t>::min(), kAnyInteger,
                                   JsonPath(path, key), findings_.faults)
                       .value_or(0);
      } else if (value.is_number()) {
        property = value.get<double>();
      } else if (key == "DEVICE_PROPERTIES" && value.is_object()) {
        property = DeviceProperties(value, JsonPath(path, key));
      } else {
        findings_.faults.Add(JsonPath(path, key), "expected a string, a number, true or false");
      }
    }
  }

  // Formats the properties of each device as OpenVINO reads them: {CPU:{NUM_STREAMS:1}}.
  std::string DeviceProperties(const Json& devices, const std::string& path) {
    for (const auto& [device, properties] : devices.items()) {
      if (!properties.is_object())
        findings_.faults.Add(JsonPath(path, device), "expected an object");
      else
        for (const auto& [name, value] : properties.items())
          if (value.is_structured() || value.is_null())
            findings_.faults.Add(JsonPath(JsonPath(path, device), name),
                                 "expected a string, a number, true or false");
    }
    std::string text = DumpJson(devices);
    std::erase(text, '"');
    return text;
  }

  void ReadVersionPolicy() {
    constexpr std::string_view key = "model_version_policy";
    const Json* value = object_.Get(key);
    if (value == nullptr) return;
    JsonObject policy(*value, object_.PathOf(key), findings_.faults);
    const Json* all = policy.Get("all");
    const Json* latest = policy.Get("latest");
    const Json* specific = policy.Get("specific");
    if (value->is_object() && (all != nullptr) + (latest != nullptr) + (specific != nullptr) != 1) {
      object_.Fault(key, "expected exactly one of all, latest and specific");
    }
    if (all != nullptr) {
      model_.version_policy.kind = OvmsVersionPolicy::Kind::kAll;
      JsonObject(*all, policy.PathOf("all"), findings_.faults).Finish();
    }
    if (latest != nullptr) {
      model_.version_policy.kind = OvmsVersionPolicy::Kind::kLatest;
      JsonObject inside(*latest, policy.PathOf("latest"), findings_.faults);
      if (latest->is_object()) inside.Require("num_versions");
      model_.version_policy.latest = inside.Integer("num_versions", 1, kAnyInteger).value_or(1);
      inside.Finish();
    }
    if (specific != nullptr) {
      model_.version_policy.kind = OvmsVersionPolicy::Kind::kSpecific;
      JsonObject inside(*specific, policy.PathOf("specific"), findings_.faults);
      const Json* versions = inside.Require("versions");
      inside.List(versions, "versions", [this](const Json& one, const std::string& place) {
        if (const auto version = ReadJsonInteger(one, 1, kAnyInteger, place, findings_.faults)) {
          model_.version_policy.specific.push_back(*version);
        }
      });
      if (versions != nullptr && versions->is_array() && versions->empty()) {
        inside.Fault("versions", "expected at least one version");
      }
      inside.Finish();
    }
    policy.Finish();
  }

  void ReadStateful() {
    model_.stateful = object_.Bool("stateful").value_or(false);
    const auto cleanup = object_.Bool("idle_sequence_cleanup");
    const auto low_latency = object_.Bool("low_latency_transformation");
    const auto most = object_.Integer("max_sequence_number", 0, kAnyInteger);
    model_.allow_in_pipelines = object_.Bool("allow_in_pipelines").value_or(false);
    model_.idle_sequence_cleanup = cleanup.value_or(true);
    model_.low_latency_transformation = low_latency.value_or(false);
    if (most && *most > kMostSequences) {
      own_.Add(object_.PathOf("max_sequence_number"), "Sequence max number parameter too high");
    } else if (most) {
      model_.max_sequence_number = static_cast<uint32_t>(*most);
    }
    if (!model_.stateful) {
      for (const std::string_view key : {"idle_sequence_cleanup", "low_latency_transformation",
                                         "max_sequence_number", "allow_in_pipelines"}) {
        if (object_.Get(key) != nullptr) {
          own_.Add(object_.PathOf(key), "Stateful model config parameter used for non stateful model");
        }
      }
      return;
    }
    const bool automatic_shape = std::any_of(model_.shapes.begin(), model_.shapes.end(),
                                             [](const auto& shape) { return shape.second.automatic; });
    if (automatic_shape) own_.Add(object_.PathOf("shape"), "a stateful model cannot have an automatic shape");
    if (model_.batch_size && model_.batch_size->automatic) {
      own_.Add(object_.PathOf("batch_size"), "a stateful model cannot have an automatic batch size");
    }
    if (model_.target_device != "CPU") {
      own_.Add(object_.PathOf("target_device"), "stateful models run only on the CPU");
    }
  }

  JsonObject object_;
  OvmsFindings& findings_;
  JsonFaults& own_;
  OvmsModelConfig model_;
};

}  // namespace

OvmsModelConfig ReadOvmsModel(const Json& value, const std::string& path, const std::string& folder,
                              OvmsFindings& findings, JsonFaults& own) {
  return ModelReader(value, path, findings, own).Read(folder);
}

}  // namespace braid
