#include "protocols/access/rights.h"

#include <fnmatch.h>

#include <algorithm>

#include "config/json_reader.h"
#include "protocols/access/tokens.h"

namespace braid {
namespace {

// Returns no names without the key. An empty list is a fault: as a list of models it would allow all of them,
// which its author did not intend.
std::vector<std::string> ReadNames(JsonObject& rule, std::string_view key, const Json* list,
                                   JsonFaults& faults) {
  std::vector<std::string> names;
  rule.List(list, key, [&](const Json& element, const std::string& path) {
    auto name = ReadJsonText(element, path, faults);
    if (name && name->empty()) faults.Add(path, "expected a name or a pattern");
    if (name) names.push_back(std::move(*name));
  });
  if (list != nullptr && list->is_array() && list->empty()) rule.Fault(key, "expected at least one element");
  return names;
}

// Whether one of the patterns matches the name.
bool Match(const std::vector<std::string>& patterns, const std::string& name) {
  return std::ranges::any_of(
      patterns, [&](const std::string& pattern) { return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0; });
}

ApiSet ReadApis(JsonObject& rule, JsonFaults& faults) {
  ApiSet apis;
  const std::vector<std::string> names = ReadNames(rule, "apis", rule.Require("apis"), faults);
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == "*") {
      apis = ApiSet::All();
    } else if (const auto api = ApiFromName(names[i])) {
      apis.Add(*api);
    } else {
      std::string known;
      for (int api_number = 0; api_number < kApiCount; ++api_number)
        known += std::string(ApiName(static_cast<Api>(api_number))) + ", ";
      faults.Add(JsonPath(rule.PathOf("apis"), i),
                 "unknown API '" + names[i] + "'; expected one of " + known + "or *");
    }
  }
  return apis;
}

}  // namespace

Result<Rights> Rights::Parse(std::string_view json) {
  JsonFaults faults;
  BRAID_ASSIGN_OR_RETURN(const Json document, ParseJsonText(json, faults));
  Rights rights;
  JsonObject policy(document, "", faults);
  policy.List(policy.Require("rules"), "rules", [&](const Json& element, const std::string& path) {
    JsonObject object(element, path, faults);
    Rule rule;
    rule.identities = ReadNames(object, "identities", object.Require("identities"), faults);
    rule.apis = ReadApis(object, faults);
    rule.models = ReadNames(object, "models", object.Get("models"), faults);
    object.Finish();
    if (std::ranges::find(rule.models, "*") != rule.models.end()) rule.models.clear();
    rights.rules_.push_back(std::move(rule));
  });
  policy.Finish();
  if (!faults.empty()) return InvalidArgumentError(faults.Text());
  return rights;
}

Rights Rights::ForAllKnown() {
  Rights rights;
  rights.rules_ = {{{"*"}, ApiSet::All(), {}}, {{std::string(kAnonymous)}, ApiSet::Of({Api::kHealth}), {}}};
  return rights;
}

bool Rights::Allow(std::string_view identity, const Subject& subject) const {
  const bool anonymous = identity == kAnonymous;
  // fnmatch() needs null-terminated texts.
  const std::string who(identity);
  const std::string model(subject.model.value_or(""));
  return std::ranges::any_of(rules_, [&](const Rule& rule) {
    if (!rule.apis.Has(subject.api)) return false;
    const bool is_for = anonymous ? std::ranges::find(rule.identities, who) != rule.identities.end()
                                  : Match(rule.identities, who);
    if (!is_for) return false;
    if (!subject.model || rule.models.empty()) return true;
    return !model.empty() && Match(rule.models, model);
  });
}

}  // namespace braid
