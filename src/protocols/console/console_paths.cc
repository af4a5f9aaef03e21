#include "protocols/console/console_paths.h"

#include <algorithm>
#include <charconv>

#include "protocols/http/message.h"
#include "protocols/http/path_pattern.h"

namespace braid {
namespace {

using A = ConsoleAction;
using Kind = ConsoleRouteMatch::Kind;

constexpr ConsoleRoute kRoutes[] = {
    {"GET", "/console/api/overview", Api::kStatistics, A::kOverview},
    {"GET", "/console/api/fleet", Api::kStatistics, A::kFleet},
    {"GET", "/console/api/models", Api::kStatistics, A::kModels},
    {"GET", "/console/api/models/{m}/versions/{v}", Api::kStatistics, A::kModel},
    {"GET", "/console/api/history", Api::kStatistics, A::kHistory},
    {"GET", "/console/api/sequences", Api::kStatistics, A::kSequences},
    {"GET", "/console/api/log", Api::kLogging, A::kLog},
    {"GET", "/console/api/traces", Api::kTrace, A::kTraces},
    {"POST", "/console/api/traces", Api::kTrace, A::kWatch},
};

bool NeedsModel(ConsoleAction action) {
  return action == A::kSequences || action == A::kTraces || action == A::kWatch;
}

template <class Number>
bool ReadNumber(std::string_view digits, std::optional<Number>& number) {
  Number value = 0;
  const char* end = digits.data() + digits.size();
  const auto read = std::from_chars(digits.data(), end, value);
  if (read.ec != std::errc() || read.ptr != end) return false;
  number = value;
  return true;
}

bool ReadText(std::string_view text, std::optional<std::string>& out) {
  out = PercentDecode(text);
  return out.has_value();
}

// Takes one "name=value" of a query. What has another name is left out.
Kind TakeParameter(std::string_view name, std::string_view value, ConsoleRouteMatch& match) {
  bool number = true;
  if (name == "model") return ReadText(value, match.model) ? Kind::kFound : Kind::kBadEscape;
  if (name == "version") number = ReadNumber(value, match.version);
  if (name == "after") number = ReadNumber(value, match.after);
  if (name == "limit") number = ReadNumber(value, match.limit);
  if (name == "seconds") number = ReadNumber(value, match.seconds);
  return number ? Kind::kFound : Kind::kBadNumber;
}

Kind TakeQuery(std::string_view query, ConsoleRouteMatch& match) {
  while (!query.empty()) {
    const std::string_view one = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(one.size() + 1, query.size()));
    const size_t equals = std::min(one.find('='), one.size());
    const Kind taken =
        TakeParameter(one.substr(0, equals), one.substr(std::min(equals + 1, one.size())), match);
    if (taken != Kind::kFound) return taken;
  }
  return Kind::kFound;
}

}  // namespace

ConsoleRouteMatch MatchConsoleRoute(std::string_view method, std::string_view target) {
  const size_t question = std::min(target.find('?'), target.size());
  const std::string_view path = target.substr(0, question);
  ConsoleRouteMatch match;
  PathVariables variables;
  for (const ConsoleRoute& route : kRoutes) {
    if (!MatchPath(route.pattern, path, variables)) continue;
    match.kind = Kind::kWrongMethod;
    if (route.method != method) continue;
    match.kind = TakeQuery(target.substr(std::min(question + 1, target.size())), match);
    match.route = &route;
    if (match.kind != Kind::kFound) return match;
    if (!variables.model.empty() && !ReadText(variables.model, match.model)) match.kind = Kind::kBadEscape;
    if (!variables.version.empty() && !ReadNumber(variables.version, match.version))
      match.kind = Kind::kBadNumber;
    if (match.kind == Kind::kFound && NeedsModel(route.action) && !match.model) match.kind = Kind::kNoModel;
    return match;
  }
  return match;
}

}  // namespace braid
