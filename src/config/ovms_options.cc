// Converts the command-line options of one model to the entry that a config.json would have.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

#include "config/ovms_config_parts.h"

namespace braid {
namespace {

enum class Kind : unsigned char { kText, kBool, kInteger, kObject };

struct Option {
  std::string_view name;
  std::string_view key;
  Kind kind;
};

constexpr Option kOptions[] = {
    {"model_name", "name", Kind::kText},
    {"model_path", "base_path", Kind::kText},
    {"batch_size", "batch_size", Kind::kText},
    {"shape", "shape", Kind::kText},
    {"layout", "layout", Kind::kText},
    {"precision", "precision", Kind::kText},
    {"mean", "mean", Kind::kText},
    {"scale", "scale", Kind::kText},
    {"color_format", "color_format", Kind::kText},
    {"nireq", "nireq", Kind::kInteger},
    {"target_device", "target_device", Kind::kText},
    {"plugin_config", "plugin_config", Kind::kObject},
    {"allow_cache", "allow_cache", Kind::kBool},
    {"model_version_policy", "model_version_policy", Kind::kObject},
    {"stateful", "stateful", Kind::kBool},
    {"idle_sequence_cleanup", "idle_sequence_cleanup", Kind::kBool},
    {"low_latency_transformation", "low_latency_transformation", Kind::kBool},
    {"max_sequence_number", "max_sequence_number", Kind::kInteger},
};

Result<Json> ToJson(const Option& option, const std::string& text) {
  switch (option.kind) {
    case Kind::kText:
      return Json(text);
    case Kind::kBool: {
      std::string word = text;
      std::transform(word.begin(), word.end(), word.begin(),
                     [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      // An option without a value is on.
      if (word.empty() || word == "true" || word == "1") return Json(true);
      if (word == "false" || word == "0") return Json(false);
      return InvalidArgumentError("expected true or false, got '" + text + "'");
    }
    case Kind::kInteger: {
      int64_t number = 0;
      const auto [stop, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
      if (fault != std::errc() || stop != text.data() + text.size()) {
        return InvalidArgumentError("expected an integer, got '" + text + "'");
      }
      return Json(number);
    }
    case Kind::kObject: {
      JsonFaults faults;
      auto json = ParseJsonText(text, faults);
      if (!json.ok()) return json.status().WithPrefix("expected a JSON object: ");
      if (!faults.empty()) return InvalidArgumentError(faults.Text());
      return json;
    }
  }
  return InvalidArgumentError("unknown option");
}

// "/base_path" -> "--model_path"; a path within a value follows the option.
std::string OptionOfPath(const std::string& path) {
  const size_t end = path.find('/', 1);
  const std::string key = path.substr(1, end == std::string::npos ? end : end - 1);
  const std::string rest = end == std::string::npos ? "" : path.substr(end);
  for (const Option& option : kOptions) {
    if (option.key == key) return "--" + std::string(option.name) + rest;
  }
  return "--" + key + rest;
}

}  // namespace

Result<OvmsModelConfig> ModelConfigFromOptions(const std::map<std::string, std::string>& options,
                                               const std::string& folder) {
  JsonFaults faults;
  Json entry = Json::object();
  for (const auto& [name, text] : options) {
    const auto* option = std::find_if(std::begin(kOptions), std::end(kOptions),
                                      [&name = name](const Option& one) { return one.name == name; });
    if (option == std::end(kOptions)) {
      faults.Add("--" + name, "unknown model option");
      continue;
    }
    auto json = ToJson(*option, text);
    if (json.ok()) {
      entry[std::string(option->key)] = std::move(json).value();
    } else {
      faults.Add("--" + name, json.status().message());
    }
  }
  for (const char* name : {"model_name", "model_path"}) {
    if (!options.contains(name)) faults.Add(std::string("--") + name, "is missing");
  }
  if (!faults.empty()) return InvalidArgumentError(faults.Text());

  OvmsFindings findings;
  JsonFaults own;
  OvmsModelConfig model = ReadOvmsModel(entry, "", folder, findings, own);
  for (const JsonFaults* found : {&findings.faults, &own}) {
    for (const JsonFault& fault : found->all()) faults.Add(OptionOfPath(fault.path), fault.what);
  }
  if (!faults.empty()) return InvalidArgumentError(faults.Text());
  return model;
}

}  // namespace braid
