#include "protocols/openapi/document.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <utility>

#include "base/json.h"
#include "protocols/openapi/parts.h"

namespace braid {
namespace {

constexpr std::string_view kReferencePrefix = "#/components/";

// A way to name a version in the path of a model; the other way is to omit it.
struct VersionForm {
  std::string_view segments;
  std::string_view id;       // appended to the operationId
  std::string_view summary;  // appended to the summary
};
constexpr VersionForm kVersionForms[] = {
    {"/versions/{version}", "OfVersion", ", of one version"},
    {"/labels/{label}", "OfLabel", ", of the version with a label"},
};

constexpr std::pair<std::string_view, std::string_view> kVariables[] = {
    {"{m}", "model"}, {"{n}", "model"}, {"{v}", "version"}, {"{l}", "label"}, {"{r}", "region"}};

struct DescribedPath {
  std::string path;
  std::string plain;  // without the version
  const VersionForm* form = nullptr;
  std::vector<std::string_view> variables;
};

DescribedPath DescribePath(std::string_view pattern) {
  DescribedPath described;
  described.path = pattern;
  for (const auto& [variable, name] : kVariables) {
    const size_t at = described.path.find(variable);
    if (at == std::string::npos) continue;
    described.path.replace(at, variable.size(), "{" + std::string(name) + "}");
    described.variables.push_back(name);
  }
  described.plain = described.path;
  for (const VersionForm& form : kVersionForms) {
    const size_t at = described.plain.find(form.segments);
    if (at == std::string::npos) continue;
    described.plain.erase(at, form.segments.size());
    described.form = &form;
  }
  return described;
}

Json Reference(std::string_view kind, std::string_view name) {
  return {{"$ref", std::string(kReferencePrefix) + std::string(kind) + "/" + std::string(name)}};
}

Json ByToken() {
  Json requirement = Json::object();
  requirement["token"] = Json::array();
  return requirement;
}

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

// Returns the operation's statuses, and those common to all routes unless it defines them itself, in
// ascending order.
Json AllResponses(const Json& own, const HttpRoute& route, const DescribedPath& path, bool has_tokens) {
  std::map<std::string, Json> responses;
  for (const auto& [status, response] : own.items()) responses.emplace(status, response);
  const auto add = [&](const char* status, std::string_view name) {
    responses.emplace(status, Reference("responses", name));
  };
  if (!path.variables.empty()) add("400", "BadRequest");
  if (has_tokens) add("401", "Unauthorized");
  add("403", "Forbidden");
  if (route.method != "GET") add("413", "TooLarge");
  add("431", "HeadersTooLarge");
  // Both answer while the server starts and stops.
  if (route.api != Api::kHealth && route.api != Api::kMetrics) add("503", "Unavailable");
  Json all = Json::object();
  for (auto& [status, response] : responses) all[status] = std::move(response);
  return all;
}

Json Operation(const Json& described, const HttpRoute& route, const DescribedPath& path, bool has_tokens) {
  Json operation = described;
  if (path.form != nullptr) {
    for (const auto& [key, text] :
         {std::pair("operationId", path.form->id), std::pair("summary", path.form->summary)}) {
      operation[key] = operation[key].get<std::string>() + std::string(text);
    }
  }
  Json parameters = Json::array();
  for (const std::string_view variable : path.variables) {
    parameters.push_back(Reference("parameters", variable));
  }
  if (const auto own = described.find("parameters"); own != described.end()) {
    parameters.insert(parameters.end(), own->begin(), own->end());
  }
  if (!parameters.empty()) operation["parameters"] = std::move(parameters);
  operation["responses"] = AllResponses(described.at("responses"), route, path, has_tokens);
  // Probes may ask for health without a token.
  if (has_tokens && route.api == Api::kHealth) {
    operation["security"] = Json::array({Json::object(), ByToken()});
  }
  return operation;
}

// Collects the components that `json` references, directly or not, as "kind/name".
void CollectReferences(const Json& json, const Json& components, std::set<std::string>& found) {
  if (const auto reference = json.is_object() ? json.find("$ref") : json.end(); reference != json.end()) {
    std::string name = reference->get<std::string>().substr(kReferencePrefix.size());
    if (!found.insert(name).second) return;
    CollectReferences(components.at(Json::json_pointer("/" + name)), components, found);
    return;
  }
  if (!json.is_structured()) return;
  for (const Json& part : json) CollectReferences(part, components, found);
}

Json UsedComponents(const Json& paths, const Json& components, bool has_tokens) {
  std::set<std::string> names;
  CollectReferences(paths, components, names);
  Json used = Json::object();
  for (const auto& [kind, members] : components.items()) {
    const bool all = has_tokens && kind == "securitySchemes";
    for (const auto& [name, member] : members.items()) {
      if (all || names.contains(kind + "/" + name)) used[kind][name] = member;
    }
  }
  return used;
}

class Maker {
 public:
  explicit Maker(const OpenApiOptions& options) : options_(options) {}

  Status Add(const OpenApiPart& part) {
    const Json described = ParseJson(part.text);
    std::set<std::pair<std::string, std::string>> used;
    for (const HttpRoute& route : part.routes) {
      if (route.kind == HttpRouteKind::kOnlyRefuses) continue;
      const DescribedPath path = DescribePath(route.pattern);
      const std::string method = LowerCase(route.method);
      const Json::json_pointer place = Json::json_pointer() / "paths" / path.plain / method;
      if (!described.contains(place)) {
        return InternalError("openapi: no part describes " + std::string(route.method) + " " + path.plain);
      }
      used.emplace(path.plain, method);
      if (!options_.served.Has(route.api)) continue;
      const Json& operation = described.at(place);
      for (const Json& tag : operation.at("tags")) tags_.insert(tag.get<std::string>());
      paths_[path.path][method] = Operation(operation, route, path, options_.has_tokens);
      if (path.form == nullptr) {
        routes_.push_back(
            {route.api, std::string(route.method), path.path, operation.at("summary").get<std::string>()});
      }
    }
    for (const auto& [path, item] : described.at("paths").items()) {
      for (const auto& [method, operation] : item.items()) {
        if (used.contains({path, method})) continue;
        return InternalError("openapi: a part describes " + method + " " + path + ", which has no route");
      }
    }
    all_tags_.insert(all_tags_.end(), described.at("tags").begin(), described.at("tags").end());
    if (const auto components = described.find("components"); components != described.end()) {
      for (const auto& [kind, members] : components->items()) components_[kind].update(members);
    }
    return OkStatus();
  }

  PortDescription Describe() const {
    Json document = ParseJson(OpenApiPartText("server"));
    document["info"]["version"] = options_.version;
    document["security"] = Json::array();
    if (options_.has_tokens) document["security"].push_back(ByToken());
    document["tags"] = Json::array();
    for (const Json& tag : all_tags_) {
      if (tags_.contains(tag.at("name").get<std::string>())) document["tags"].push_back(tag);
    }
    document["components"] = UsedComponents(paths_, components_, options_.has_tokens);
    document["paths"] = paths_;
    return {options_.version, DumpJson(document), routes_};
  }

 private:
  const OpenApiOptions& options_;
  Json paths_ = Json::object();
  Json components_ = Json::object();
  std::vector<Json> all_tags_;
  std::set<std::string> tags_;  // of operations in `paths_`
  std::vector<PortRoute> routes_;
};

}  // namespace

Result<PortDescription> OpenApiDocument(const OpenApiOptions& options,
                                        const std::vector<OpenApiPart>& parts) {
  Maker maker(options);
  try {
    const HttpRoute own{"GET", kOpenApiPath, options.document_api, HttpScope::kNamed, nullptr};
    BRAID_RETURN_IF_ERROR(maker.Add({OpenApiPartText("server"), {&own, 1}}));
    for (const OpenApiPart& part : parts) BRAID_RETURN_IF_ERROR(maker.Add(part));
    return maker.Describe();
  } catch (const Json::exception& fault) {
    return InternalError("openapi: malformed part: " + std::string(fault.what()));
  }
}

}  // namespace braid
