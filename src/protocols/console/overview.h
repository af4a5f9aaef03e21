// The console's document about the server as a whole.
#pragma once

#include <string>

#include "base/json.h"
#include "base/process_memory.h"
#include "protocols/console/console_context.h"

namespace braid {

// The sender's rights at the port of the request.
struct ConsoleRights {
  bool infer = false;
  bool manage = false;
  bool log = false;
  bool trace = false;
};

// Returns {"may": {...}, "manage_how": ...}: the operations that a page may offer its user.
Json RightsJson(const ConsoleContext& context, const ConsoleRights& may);

// Returns the overview, for senders with rights to all models. `exiting`: the server is closing its ports.
std::string OverviewJson(const ConsoleContext& context, const ProcessMemory& memory, const ConsoleRights& may,
                         bool exiting);

}  // namespace braid
