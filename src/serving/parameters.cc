#include "serving/parameters.h"

#include <nlohmann/json.hpp>

#include "base/guard.h"
#include "base/json_dump.h"

namespace braid {

std::string ParametersToJson(const Parameters& parameters) {
  if (parameters.empty()) return "{}";
  // JSON of this library asks for memory when it is destroyed, and must not fail then.
  const PatientAllocation patience;
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const auto& [name, value] : parameters) {
    std::visit([&object, &key = name](const auto& v) { object[key] = v; }, value);
  }
  return DumpJson(object);
}

}  // namespace braid
