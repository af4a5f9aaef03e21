#include "base/log_colours.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include <spdlog/fmt/fmt.h>

namespace braid {
namespace {

constexpr std::string_view kPlain = "\x1b[0m";
constexpr std::string_view kBold = "\x1b[1m";
constexpr std::string_view kDim = "\x1b[2m";
constexpr std::string_view kOwnPlace = "\x1b[1;36m";
constexpr std::string_view kTag = "\x1b[36m";

std::string In(std::string_view colour, std::string_view text) {
  return fmt::format("{}{}{}", colour, text, kPlain);
}

std::string_view ColourOf(LogLevel level) {
  switch (level) {
    case LogLevel::kInfo:
      return "\x1b[32m";
    case LogLevel::kWarning:
      return "\x1b[1;33m";
    case LogLevel::kError:
      return "\x1b[1;31m";
    case LogLevel::kVerbose:
      return kDim;
  }
  return kPlain;
}

bool IsOwn(std::string_view file) {
  return file.starts_with('/') && file.find("/site-packages/") == std::string_view::npos &&
         file.find("/dist-packages/") == std::string_view::npos &&
         file.find("/lib/python3") == std::string_view::npos;
}

// Rewrites the places of a Python traceback: `File "/models/m/1/model.py", line 12, in execute`.
std::string WithPlace(std::string_view line) {
  constexpr std::string_view kFile = "File \"";
  constexpr std::string_view kLine = "\", line ";
  const size_t begin = line.find_first_not_of(' ');
  if (begin == std::string_view::npos || !line.substr(begin).starts_with(kFile)) return std::string(line);
  const size_t name = begin + kFile.size();
  const size_t end = line.find(kLine, name);
  if (end == std::string_view::npos) return std::string(line);
  const size_t number = end + kLine.size();
  const size_t rest = std::min(line.find_first_not_of("0123456789", number), line.size());
  const std::string_view file = line.substr(name, end - name);
  const std::string place = fmt::format("{}:{}", file, line.substr(number, rest - number));
  return fmt::format("{}File {}{}", line.substr(0, begin), In(IsOwn(file) ? kOwnPlace : kDim, place),
                     line.substr(rest));
}

}  // namespace

bool ShowsColours(int fd) {
  const char* const forbidden = std::getenv("NO_COLOR");
  const char* const terminal = std::getenv("TERM");
  return (forbidden == nullptr || *forbidden == '\0') && terminal != nullptr &&
         std::string_view(terminal) != "dumb" && ::isatty(fd) == 1;
}

std::string ColouredLines(LogLevel level, std::string_view prefix, std::string_view requests,
                          std::string_view lines) {
  std::string text = In(ColourOf(level), prefix.substr(0, 1)) + In(kDim, prefix.substr(1));
  if (!requests.empty()) text += In(kTag, fmt::format("[request {}] ", requests));
  const bool stands_out = level == LogLevel::kError || level == LogLevel::kWarning;
  for (size_t begin = 0; begin <= lines.size();) {
    const size_t end = std::min(lines.find('\n', begin), lines.size());
    const std::string_view line = lines.substr(begin, end - begin);
    if (begin == 0) {
      text += stands_out ? In(kBold, line) : std::string(line);
    } else {
      text += '\n';
      text += WithPlace(line);
    }
    begin = end + 1;
  }
  return text;
}

std::string ColouredOutput(std::string_view source, std::string_view line) {
  return fmt::format("{} {}", In(kTag, fmt::format("[{}]", source)), WithPlace(line));
}

}  // namespace braid
