// The page at / of a port, a first overview: the routes, their description and the console.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "protocols/http/message.h"
#include "protocols/openapi/document.h"

namespace braid {

// The port that serves the console's page.
struct ConsolePort {
  std::string scheme;
  std::string endpoint;  // "0.0.0.0:8002"
};

// Returns the console's address for a client that sent `host` (its Host header). A port on all addresses gets
// this host.
std::string ConsoleUrl(const ConsolePort& port, std::string_view host);

// Returns the page as HTML or JSON. It needs no right and lists only routes of groups that `may` allows.
// `console`: its address; empty if there is none.
HttpResponse FrontPage(const PortDescription& port, const std::string& console, bool html,
                       const std::function<bool(Api)>& may);

}  // namespace braid
