#include "isolation/isolation_options.h"

#include <spdlog/fmt/fmt.h>

#include "isolation/confinement.h"
#include "isolation/start_program.h"
#include "isolation/user_ids.h"
#include "isolation/worker_surroundings.h"

namespace braid {
namespace {

Status CheckLevel(const IsolationOptions& options, IsolationLevel level, const std::string& where) {
  std::string refused = ReportIsolation(level).refused;
  if (refused.empty() && level == IsolationLevel::kSeparate)
    refused = CheckUserIds(options.first_user_id, options.last_user_id).message();
  // A container may refuse a call even if the kernel and the server's rights would allow it.
  if (refused.empty() && level >= IsolationLevel::kStrict)
    refused =
        TryConfinement({.level = level, .files = SystemPaths(), .user_id = options.first_user_id}).message();
  if (refused.empty()) return OkStatus();
  return FailedPreconditionError(
      fmt::format("{}{} is not possible here: {}", where, IsolationLevelName(level), refused));
}

Result<IsolationLevel> LevelOf(const IsolationOptions& options, std::string_view model,
                               std::string_view asked) {
  if (const auto found = options.models.find(model); found != options.models.end()) return found->second;
  if (asked.empty()) return options.level;
  const Result<IsolationLevel> own = ParseIsolationLevel(asked);
  const std::string where = fmt::format("parameter WORKER_ISOLATION of model '{}': ", model);
  if (!own.ok()) return own.status().WithPrefix(where);
  if (*own >= options.level) {
    BRAID_RETURN_IF_ERROR(CheckLevel(options, *own, where));
    return own;
  }
  return InvalidArgumentError(
      fmt::format("{}'{}' is less than the server's '{}'; only --worker-isolation={}={} can lower it", where,
                  asked, IsolationLevelName(options.level), model, asked));
}

}  // namespace

Status CheckIsolation(const IsolationOptions& options) {
  BRAID_RETURN_IF_ERROR(CheckLevel(options, options.level, "--worker-isolation="));
  for (const auto& [model, level] : options.models) {
    BRAID_RETURN_IF_ERROR(CheckLevel(options, level, "--worker-isolation=" + model + "="));
  }
  if (options.cgroup.empty() && !options.cgroup_settings.empty())
    return FailedPreconditionError("--worker-cgroup-limit needs --worker-cgroup");
  return options.cgroup.empty() ? OkStatus() : PrepareCgroups(options.cgroup, options.cgroup_settings);
}

Status SetIsolation(IsolationOptions& options, std::string_view text) {
  const size_t equals = text.rfind('=');
  if (equals == std::string_view::npos) {
    BRAID_ASSIGN_OR_RETURN(options.level, ParseIsolationLevel(text));
    return OkStatus();
  }
  if (equals == 0) return InvalidArgumentError(fmt::format("'{}' has no model name before the '='", text));
  BRAID_ASSIGN_OR_RETURN(const IsolationLevel level, ParseIsolationLevel(text.substr(equals + 1)));
  options.models[std::string(text.substr(0, equals))] = level;
  return OkStatus();
}

Result<WorkerIsolation> IsolationOf(const IsolationOptions& options, std::string_view model,
                                    std::string_view asked) {
  WorkerIsolation isolation;
  BRAID_ASSIGN_OR_RETURN(isolation.level, LevelOf(options, model, asked));
  for (const CgroupSetting& setting : options.cgroup_settings)
    if (setting.model.empty() || setting.model == model) isolation.cgroup.push_back(setting);
  return isolation;
}

}  // namespace braid
