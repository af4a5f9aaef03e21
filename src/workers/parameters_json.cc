#include "workers/parameters_json.h"

#include "base/json.h"

namespace braid {

Parameters ParametersFromJson(std::string_view json) {
  Parameters parameters;
  if (json.empty()) return parameters;
  const auto object = ParseJson(json);
  if (!object.is_object()) return parameters;
  for (const auto& [name, value] : object.items()) {
    if (value.is_boolean()) {
      parameters.emplace_back(name, value.get<bool>());
    } else if (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX) {
      parameters.emplace_back(name, value.get<uint64_t>());
    } else if (value.is_number_integer()) {
      parameters.emplace_back(name, value.get<int64_t>());
    } else if (value.is_number()) {
      parameters.emplace_back(name, value.get<double>());
    } else if (value.is_string()) {
      parameters.emplace_back(name, value.get<std::string>());
    }
  }
  return parameters;
}

}  // namespace braid
