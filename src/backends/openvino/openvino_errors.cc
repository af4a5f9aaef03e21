#include "backends/openvino/openvino_errors.h"

#include <optional>

namespace braid {
namespace {

constexpr size_t kMostText = 4096;

// "src/core/x.cpp:12:", as a part of a text.
struct Place {
  size_t begin = 0;
  size_t end = 0;
};

bool IsDigit(char letter) { return letter >= '0' && letter <= '9'; }

// Returns the first source location in a line, at or behind `from`.
std::optional<Place> FindPlace(std::string_view line, size_t from) {
  constexpr std::string_view kExtensions[] = {".cpp:", ".hpp:", ".cc:", ".h:", ".c:", ".inl:"};
  std::optional<Place> found;
  for (const std::string_view extension : kExtensions) {
    for (size_t at = line.find(extension, from); at != std::string_view::npos;
         at = line.find(extension, at + 1)) {
      Place place{0, at + extension.size()};
      if (place.end == line.size() || !IsDigit(line[place.end])) continue;
      while (place.end < line.size() && IsDigit(line[place.end])) ++place.end;
      if (place.end < line.size() && line[place.end] == ':') ++place.end;
      const size_t before = line.find_last_of(" \t'\"(", at);
      place.begin = before == std::string_view::npos ? 0 : before + 1;
      if (!found || place.begin < found->begin) found = place;
      break;
    }
  }
  return found;
}

// Removes source locations from a line, with the words before them. In "Check 'a == b' failed at
// src/x.cpp:12: text" it also removes the check, which goes to `check`, without its location.
std::string WithoutPlaces(std::string_view line, std::string& check) {
  std::string text(line);
  size_t from = 0;
  while (const auto place = FindPlace(text, from)) {
    const std::string_view before = std::string_view(text).substr(0, place->begin);
    size_t begin = place->begin;
    if (const size_t condition = before.rfind("Check '");
        condition != std::string_view::npos && before.ends_with("' failed at ")) {
      begin = condition;
      if (check.empty()) check = text.substr(begin, place->begin - std::string_view(" at ").size() - begin);
    } else if (before.ends_with("Exception from ")) {
      begin -= std::string_view("Exception from ").size();
    } else if (before.ends_with(" at ")) {
      begin -= std::string_view(" at ").size();
    }
    text.erase(begin, place->end - begin);
    from = begin;
  }
  return text;
}

std::string_view Trim(std::string_view line) {
  const size_t begin = line.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1);
}

}  // namespace

std::string CleanOpenVinoText(std::string_view text) {
  std::string result;
  std::string check;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string rest = WithoutPlaces(text.substr(0, end), check);
    const std::string_view line = Trim(rest);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.empty()) continue;
    if (!result.empty()) result += result.ends_with(':') ? " " : "; ";
    result += line;
    if (result.size() > kMostText) {
      result.resize(kMostText);
      return result + "...";
    }
  }
  if (result.empty()) result = check;
  return result;
}

std::string CurrentExceptionText() {
  try {
    throw;
  } catch (const std::exception& exception) {
    return CleanOpenVinoText(exception.what());
  } catch (...) {
    return "unknown exception";
  }
}

}  // namespace braid
