#include "backends/openvino/openvino_errors.h"

namespace braid {
namespace {

constexpr size_t kMostText = 4096;

bool IsPlace(std::string_view line) { return line.starts_with("Exception from ") && line.ends_with(":"); }

// "Check 'a == b' failed at src/x.cpp:12:" says where, and the lines after it what.
bool IsCheck(std::string_view line) {
  return line.starts_with("Check '") && line.find("' failed at ") != std::string_view::npos;
}

std::string_view Trim(std::string_view line) {
  const size_t begin = line.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1);
}

}  // namespace

std::string CleanOpenVinoText(std::string_view text) {
  std::string result;
  std::string_view check;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = Trim(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.empty() || IsPlace(line)) continue;
    if (IsCheck(line)) {
      check = line;
      continue;
    }
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
    return "an exception that is none of the standard's";
  }
}

}  // namespace braid
