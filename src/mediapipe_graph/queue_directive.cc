#include "mediapipe_graph/queue_directive.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "serving/faults.h"

namespace braid {
namespace {

constexpr std::string_view kDirective = "OVMS_GRAPH_QUEUE_MAX_SIZE";

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// Returns the text after the directive's name, with the colon; a null view for any other line.
std::string_view AfterDirective(std::string_view line) {
  line = Trim(line);
  if (!line.starts_with('#')) return {};
  line = Trim(line.substr(1));
  if (!line.starts_with(kDirective)) return {};
  return line.substr(kDirective.size());
}

}  // namespace

Result<size_t> ParseQueueDirective(std::string_view pbtxt, size_t cores) {
  cores = std::max<size_t>(cores, 1);
  while (!pbtxt.empty()) {
    const size_t end = pbtxt.find('\n');
    const std::string_view rest = AfterDirective(pbtxt.substr(0, end));
    pbtxt.remove_prefix(end == std::string_view::npos ? pbtxt.size() : end + 1);
    if (!rest.starts_with(':')) continue;
    const std::string_view value = Trim(rest.substr(1));
    if (value == "AUTO") return cores;
    int64_t number = 0;
    const auto [last, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || last != value.data() + value.size() || number < 0) {
      return FaultError(Fault::kGraphConfigFileInvalid,
                        std::string(kDirective)
                            .append(" is '")
                            .append(value)
                            .append("'; expected AUTO or a non-negative number"));
    }
    return std::min(cores, static_cast<size_t>(number));
  }
  return size_t{0};
}

}  // namespace braid
