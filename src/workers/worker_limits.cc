#include "workers/worker_limits.h"

#include <spdlog/fmt/fmt.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <utility>

namespace braid {
namespace {

// Limits that are useful for a long-lived process that shares its user with others.
constexpr std::array<std::pair<std::string_view, int>, 5> kResources = {{{"as", RLIMIT_AS},
                                                                         {"core", RLIMIT_CORE},
                                                                         {"data", RLIMIT_DATA},
                                                                         {"fsize", RLIMIT_FSIZE},
                                                                         {"nofile", RLIMIT_NOFILE}}};

}  // namespace

Result<WorkerLimit> ParseWorkerLimit(std::string_view text) {
  const size_t equals = std::min(text.find('='), text.size());
  const auto* found = std::find_if(kResources.begin(), kResources.end(), [&](const auto& resource) {
    return resource.first == text.substr(0, equals);
  });
  if (found == kResources.end() || equals == text.size()) {
    return InvalidArgumentError(fmt::format(
        "'{}' must have the form NAME=N, with NAME one of as, core, data, fsize and nofile", text));
  }
  const std::string_view number = text.substr(equals + 1);
  WorkerLimit limit{std::string(found->first), found->second, 0};
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), limit.value);
  if (error != std::errc() || end != number.data() + number.size()) {
    return InvalidArgumentError(fmt::format("'{}' of {} is not a whole number", number, limit.name));
  }
  return limit;
}

Status ApplyWorkerLimits(pid_t pid, const std::vector<WorkerLimit>& limits) {
  for (const WorkerLimit& limit : limits) {
    const rlimit value{limit.value, limit.value};
    if (prlimit(pid, static_cast<__rlimit_resource>(limit.resource), &value, nullptr) != 0) {
      return ErrnoError(fmt::format("cannot set the limit {}={} (--worker-rlimit)", limit.name, limit.value),
                        errno);
    }
  }
  return OkStatus();
}

}  // namespace braid
