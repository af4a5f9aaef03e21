#include "backends/openvino/tensor_names.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "base/json.h"
#include "config/folder.h"
#include "serving/faults.h"

namespace braid {
namespace {

constexpr char kMappingFile[] = "mapping_config.json";
constexpr size_t kMaxMappingBytes = size_t{1} << 20;

template <class Output>
PortNames NamesOfPort(const Output& port, const std::string& fallback) {
  PortNames result;
  const auto& names = port.get_names();
  result.name = names.empty() ? fallback : port.get_any_name();
  result.others.assign(names.begin(), names.end());
  std::sort(result.others.begin(), result.others.end());
  std::erase(result.others, result.name);
  return result;
}

Status MappingError(const std::string& file, const std::string& what) {
  return FaultError(Fault::kFileInvalid, "'" + file + "': " + what);
}

Status Rename(const Json& mapping, const std::string& file, const std::string& key,
              const std::string& model_name, std::vector<PortNames>& ports, Logger& log) {
  auto section = mapping.find(key);
  if (section == mapping.end()) return OkStatus();
  if (!section->is_object()) return MappingError(file, "/" + key + " must be an object of names");
  for (const auto& [real, mapped] : section->items()) {
    if (!mapped.is_string() || mapped.get_ref<const std::string&>().empty()) {
      return MappingError(file, "/" + key + "/" + real + " must be a name");
    }
    auto port =
        std::find_if(ports.begin(), ports.end(), [&real = real](const PortNames& p) { return p.Has(real); });
    if (port == ports.end()) {
      BRAID_LOG_WARNING(log, "model '{}': {} maps '{}', which is not one of the model's {}: {}", model_name,
                        file, real, key, ListNames(ports));
      continue;
    }
    port->others.push_back(std::exchange(port->name, mapped.get<std::string>()));
  }
  std::set<std::string> seen;
  for (const PortNames& port : ports) {
    if (!seen.insert(port.name).second) {
      return MappingError(file, "two of the model's " + key + " would be called '" + port.name + "'");
    }
  }
  return OkStatus();
}

}  // namespace

bool PortNames::Has(const std::string& wanted) const {
  return wanted == name || std::find(others.begin(), others.end(), wanted) != others.end();
}

ModelNames NamesOf(const ov::Model& model) {
  ModelNames names;
  for (const auto& input : model.inputs()) {
    names.inputs.push_back(NamesOfPort(input, input.get_node()->get_friendly_name()));
  }
  for (size_t i = 0; i < model.outputs().size(); ++i) {
    names.outputs.push_back(NamesOfPort(model.output(i), "out_" + std::to_string(i)));
  }
  return names;
}

Status ApplyMappingFile(const std::string& version_path, const std::string& model_name, ModelNames& names,
                        Logger& log) {
  std::error_code fault;
  const std::filesystem::path path(version_path);
  // If the version is a file, the mapping is beside it.
  const std::string place =
      (std::filesystem::is_regular_file(path, fault) ? path.parent_path() : path).string();
  const std::string file = place + "/" + kMappingFile;
  BRAID_ASSIGN_OR_RETURN(Folder folder, Folder::Open(place));
  if (!folder.HasFile(kMappingFile)) return OkStatus();
  BRAID_ASSIGN_OR_RETURN(std::string text, folder.ReadFile(kMappingFile, kMaxMappingBytes));
  const auto mapping = ParseJson(text);
  if (mapping.is_discarded() || !mapping.is_object()) return MappingError(file, "is not a JSON object");
  for (const auto& [key, value] : mapping.items()) {
    if (key != "inputs" && key != "outputs") {
      return MappingError(file, "/" + key + " is unknown; expected /inputs or /outputs");
    }
  }
  BRAID_RETURN_IF_ERROR(Rename(mapping, file, "inputs", model_name, names.inputs, log));
  return Rename(mapping, file, "outputs", model_name, names.outputs, log);
}

std::string ListNames(const std::vector<PortNames>& ports) {
  std::string list;
  for (const PortNames& port : ports) list += (list.empty() ? "" : ", ") + port.name;
  return list;
}

}  // namespace braid
