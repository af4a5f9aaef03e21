// What the console tells of what is served: a row for each version of each model, and all there is to one of them.
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

// Whether the sender may be told of a model.
using MayShow = std::function<bool(std::string_view model)>;

// {"now_ms": ..., "may": ..., "manage_how": ..., "models": [row, ...]}, by name and version; those that are served, and those that are not, with the
// reason. Counters are of the time since the version was loaded.
std::string ModelsJson(const ConsoleContext& context, const ProcessMemory& memory, const ConsoleRights& may,
                       const MayShow& may_show);

// What of a version may be told beside its row.
struct DetailRights {
  bool metadata = true;  // inputs and outputs
  bool config = true;
  MayShow other_model = [](std::string_view) { return true; };  // that uses this one
};

// The row of one version with its tensors, its configuration, its instances and what it is made of. Errors: NOT_FOUND for
// a version that the catalog does not know.
Result<std::string> ModelJson(const ConsoleContext& context, const ProcessMemory& memory,
                              const std::string& name, int64_t version, const DetailRights& rights);

// The processes that run what is served now.
std::vector<pid_t> WorkerProcesses(const Catalog& catalog);

}  // namespace braid
