#include "serving/parameters.h"

#include "base/json.h"

namespace braid {

std::string ParametersToJson(const Parameters& parameters) {
  if (parameters.empty()) return "{}";
  Json object = Json::object();
  for (const auto& [name, value] : parameters) {
    std::visit([&object, &key = name](const auto& v) { object[key] = v; }, value);
  }
  return DumpJson(object);
}

}  // namespace braid
