// The page at / of a port: the routes, their description and the console, for a first look.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "protocols/http/message.h"
#include "protocols/openapi/document.h"

namespace braid {

// The port of the console's page.
struct ConsolePort {
  std::string scheme;
  std::string endpoint;  // "0.0.0.0:8002"
};

// Where a client that has asked for `host` (a field Host) finds the console: a port of all addresses has that of the host.
std::string ConsoleUrl(const ConsolePort& port, std::string_view host);

// HTML, else JSON. It needs no right, and has what the sender may use: routes of groups that `may` allows. `console`: its address, or empty
// where there is none.
HttpResponse FrontPage(const PortDescription& port, const std::string& console, bool html,
                       const std::function<bool(Api)>& may);

}  // namespace braid
