#include "check/finding.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace braid::check {

std::string_view LevelName(Level level) {
  switch (level) {
    case Level::kError:
      return "error";
    case Level::kRefused:
      return "refused";
    case Level::kDifference:
      return "difference";
    case Level::kNote:
      return "note";
  }
  return "";
}

void Findings::Add(Finding finding) {
  // A semicolon separates message and advice, so the message does not end with one.
  while (finding.message.ends_with(';') || finding.message.ends_with('\n')) finding.message.pop_back();
  const bool known = std::ranges::any_of(all_, [&finding](const Finding& other) {
    return std::tie(other.level, other.path, other.at, other.message) ==
           std::tie(finding.level, finding.path, finding.at, finding.message);
  });
  if (!known) all_.push_back(std::move(finding));
}

void Findings::Sort() {
  std::ranges::stable_sort(all_, [](const Finding& one, const Finding& other) {
    return std::tie(one.path, one.at, one.level) < std::tie(other.path, other.at, other.level);
  });
}

size_t Findings::Count(Level level) const {
  return static_cast<size_t>(std::ranges::count(all_, level, &Finding::level));
}

}  // namespace braid::check
