// Writing JSON that holds text from outside. nlohmann's dump() throws for text that is no UTF-8; nothing that
// a client, a worker or a file can say may end in an exception, so this is how all JSON is written.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace braid {

// One line, with U+FFFD for what is no UTF-8. `json` is of any of nlohmann's types.
template <class Document>
std::string DumpJson(const Document& json) {
  return json.dump(-1, ' ', false, Document::error_handler_t::replace);
}

}  // namespace braid
