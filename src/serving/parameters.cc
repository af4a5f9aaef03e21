#include "serving/parameters.h"

#include "base/guard.h"
#include "base/json.h"

namespace braid {

std::string ParametersToJson(const Parameters& parameters) {
  if (parameters.empty()) return "{}";
  // JSON of this library asks for memory when it is destroyed, and must not fail then.
  const PatientAllocation patience;
  Json object = Json::object();
  for (const auto& [name, value] : parameters) {
    std::visit([&object, &key = name](const auto& v) { object[key] = v; }, value);
  }
  return DumpJson(object);
}

}  // namespace braid
