// Log lines for a terminal. The level and the places in the user's own files stand out. Places have the form of
// which terminals and editors make links: /models/m/1/model.py:12.
#pragma once

#include <string>
#include <string_view>

#include "base/log.h"

namespace braid {

// Whether the descriptor is a terminal that shows colours, and the environment does not forbid them (NO_COLOR,
// TERM=dumb).
bool ShowsColours(int fd);

// Return the text in colours. All parts are escaped; `lines` may have line ends. `prefix` is not empty.
// `requests`: ids of the requests that the message is about; empty: none.
std::string ColouredLines(LogLevel level, std::string_view prefix, std::string_view requests,
                          std::string_view lines);
std::string ColouredOutput(std::string_view source, std::string_view line);

}  // namespace braid
