#include "protocols/http/path_pattern.h"

#include <algorithm>

namespace braid {
namespace {

// Takes the next segment off a path that starts with '/'.
std::string_view TakeSegment(std::string_view& path) {
  path.remove_prefix(1);
  const size_t end = std::min(path.find('/'), path.size());
  const std::string_view segment = path.substr(0, end);
  path.remove_prefix(end);
  return segment;
}

bool MatchVariable(std::string_view expected, std::string_view segment, PathVariables& variables) {
  const std::string_view verb = expected.substr(3);
  if (segment.size() <= verb.size() || !segment.ends_with(verb)) return false;
  segment.remove_suffix(verb.size());
  switch (expected[1]) {
    case 'm':
      variables.model = segment;
      break;
    case 'l':
      variables.label = segment;
      break;
    case 'r':
      variables.region = segment;
      break;
    case 'v':
      variables.version = segment;
      return std::all_of(segment.begin(), segment.end(), [](char c) { return c >= '0' && c <= '9'; });
  }
  return true;
}

}  // namespace

bool MatchPath(std::string_view pattern, std::string_view path, PathVariables& variables) {
  variables = {};
  if (!path.starts_with('/')) return false;
  while (!pattern.empty() && !path.empty()) {
    const std::string_view expected = TakeSegment(pattern);
    const std::string_view segment = TakeSegment(path);
    const bool matches =
        expected.starts_with('{') ? MatchVariable(expected, segment, variables) : segment == expected;
    if (!matches) return false;
  }
  return pattern.empty() && path.empty();
}

}  // namespace braid
