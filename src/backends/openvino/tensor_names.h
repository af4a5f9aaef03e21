// The names of a model's inputs and outputs: the model's own, those for clients, and those that settings may
// use.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <openvino/openvino.hpp>

#include "base/log.h"
#include "base/status.h"

namespace braid {

// The names of one input or output.
struct PortNames {
  std::string name;                 // for clients
  std::vector<std::string> others;  // the model's own, if different

  bool Has(const std::string& wanted) const;
};

struct ModelNames {
  std::vector<PortNames> inputs;
  std::vector<PortNames> outputs;
};

// Returns the model's own names; an output without a name is "out_{index}".
ModelNames NamesOf(const ov::Model& model);

// Reads the names for clients from `version_path`/mapping_config.json, {"inputs": {real: mapped}, "outputs":
// {real: mapped}}, if there is such a file. Logs a real name that the model does not have. Errors:
// Fault::kFileInvalid for a malformed file, or two ports of one name.
Status ApplyMappingFile(const std::string& version_path, const std::string& model_name, ModelNames& names,
                        Logger& log);

// Returns the names for clients: "a, b, c".
std::string ListNames(const std::vector<PortNames>& ports);

// Returns the entry of a setting for `port`: by any of its names, or by "" when the port is the only one of
// its kind. Returns null when there is none.
template <class T>
const T* FindSetting(const std::map<std::string, T>& setting, const PortNames& port, bool only) {
  for (const auto& [name, value] : setting) {
    if (name.empty() ? only : port.Has(name)) return &value;
  }
  return nullptr;
}

}  // namespace braid
