// The console's documents about models: a row for each version of each model, and the details of one version.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/process_memory.h"
#include "protocols/console/console_context.h"
#include "protocols/console/overview.h"
#include "serving/catalog.h"

namespace braid {

// Returns whether the sender may see a model.
using MayShow = std::function<bool(std::string_view model)>;

// Returns {"now_ms": ..., "may": ..., "manage_how": ..., "models": [row, ...]}, sorted by name and version.
// Includes versions that are not served, with the reason. Counters start when a version is loaded.
std::string ModelsJson(const ConsoleContext& context, const ProcessMemory& memory, const ConsoleRights& may,
                       const MayShow& may_show);

// The sender's rights to the details of a version.
struct DetailRights {
  bool metadata = true;  // inputs and outputs
  bool config = true;
  MayShow other_model = [](std::string_view) { return true; };  // a dependent of this one
};

// Returns the row of one version with its tensors, configuration, instances and structure. Errors: NOT_FOUND
// for an unknown version.
Result<std::string> ModelJson(const ConsoleContext& context, const ProcessMemory& memory,
                              const std::string& name, int64_t version, const DetailRights& rights);

// Returns the processes of all served models.
std::vector<pid_t> WorkerProcesses(const Catalog& catalog);

}  // namespace braid
