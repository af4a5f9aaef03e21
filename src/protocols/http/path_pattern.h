// How the routes of protocols are written, and whether a path is of a route.
#pragma once

#include <string_view>

namespace braid {

// The variable parts of a path, as they stand in it; "" for those that its pattern does not have.
struct PathVariables {
  std::string_view model;
  std::string_view version;
  std::string_view label;
  std::string_view region;
};

// Whether `path` is of `pattern`, as "/v2/models/{m}/versions/{v}/infer": each segment is the same, or {m} a
// model, {v} a version in digits, {l} a label, {r} a region or a repository, all of which have a character at
// least. A verb may follow in the same segment: "{m}:predict". Allocates nothing.
bool MatchPath(std::string_view pattern, std::string_view path, PathVariables& variables);

}  // namespace braid
