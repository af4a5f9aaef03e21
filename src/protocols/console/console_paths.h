// The table of the console's routes for JSON, below /console/api. What is not in it is not served.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "protocols/access/api.h"

namespace braid {

enum class ConsoleAction : unsigned char {
  kOverview,
  kFleet,
  kModels,
  kModel,
  kHistory,
  kSequences,
  kLog,
  kTraces,
  kWatch
};

struct ConsoleRoute {
  std::string_view method;
  // As in path_pattern.h.
  std::string_view pattern;
  Api api;
  ConsoleAction action;
};

struct ConsoleRouteMatch {
  enum class Kind : unsigned char {
    kFound,
    kNoSuchPath,
    kWrongMethod,
    kBadEscape,
    kBadNumber,
    kNoModel
  } kind = Kind::kNoSuchPath;
  const ConsoleRoute* route = nullptr;
  // Of the path or of the query, decoded; nothing where neither has one.
  std::optional<std::string> model;
  std::optional<int64_t> version;
  // The numbers of the query, by name.
  std::optional<uint64_t> after;
  std::optional<uint64_t> limit;
  std::optional<uint64_t> seconds;
};

// Looks a request up. A route that is about one model is found only with its name.
ConsoleRouteMatch MatchConsoleRoute(std::string_view method, std::string_view target);

}  // namespace braid
