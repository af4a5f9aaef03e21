// The names of a model's inputs and outputs: what the model calls them, what clients call them, and under
// which of all these a setting finds them.
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
  std::string name;                 // what clients call it
  std::vector<std::string> others;  // what the model calls it, if that is something else

  bool Has(const std::string& wanted) const;
};

struct ModelNames {
  std::vector<PortNames> inputs;
  std::vector<PortNames> outputs;
};

// As the model has them; an output without a name is "out_{index}".
ModelNames NamesOf(const ov::Model& model);

// Takes the names for clients from `version_path`/mapping_config.json, {"inputs": {real: mapped}, "outputs":
// {real: mapped}}, if there is such a file. A real name that the model does not have is logged. Errors:
// Fault::kFileInvalid for a file that is something else, or two ports of one name.
Status ApplyMappingFile(const std::string& version_path, const std::string& model_name, ModelNames& names,
                        Logger& log);

// "a, b, c": what clients call them.
std::string ListNames(const std::vector<PortNames>& ports);

// The entry of a setting that is for `port`: by any of its names, or by "" when the port is the only one of
// its kind. Null when there is none.
template <class T>
const T* FindSetting(const std::map<std::string, T>& setting, const PortNames& port, bool only) {
  for (const auto& [name, value] : setting) {
    if (name.empty() ? only : port.Has(name)) return &value;
  }
  return nullptr;
}

}  // namespace braid
