// What the console tells of the server as a whole.
#pragma once

#include <string>

#include "base/json.h"
#include "base/process_memory.h"
#include "protocols/console/console_context.h"

namespace braid {

// What the sender of a request may do at the port where it was sent.
struct ConsoleRights {
  bool infer = false;
  bool manage = false;
  bool log = false;
  bool trace = false;
};

// {"may": {...}, "manage_how": ...}: what a page may offer to its user.
Json RightsJson(const ConsoleContext& context, const ConsoleRights& may);

// For senders with rights to all models. `exiting`: the server's ports are being closed.
std::string OverviewJson(const ConsoleContext& context, const ProcessMemory& memory, const ConsoleRights& may,
                         bool exiting);

}  // namespace braid
