#include "isolation/user_ids.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <fstream>
#include <vector>

namespace braid {
namespace {

struct IdRange {
  uint64_t first;
  uint64_t last;
};

// Returns the ids that uid_map or gid_map (user_namespaces(7)) maps, in order.
std::vector<IdRange> MappedIds(const std::string& path) {
  std::vector<IdRange> ranges;
  std::ifstream lines(path);
  uint64_t first = 0;
  uint64_t outside = 0;
  uint64_t count = 0;
  while (lines >> first >> outside >> count) ranges.push_back({first, first + count - 1});
  std::ranges::sort(ranges, {}, &IdRange::first);
  return ranges;
}

bool Covers(const std::vector<IdRange>& ranges, uint64_t first, uint64_t last) {
  for (const IdRange& range : ranges) {
    if (range.first > first) return false;
    if (range.last >= last) return true;
    first = std::max(first, range.last + 1);
  }
  return false;
}

}  // namespace

Status CheckUserIds(uint32_t first, uint32_t last, const std::string& process) {
  for (const char* kind : {"uid_map", "gid_map"}) {
    const std::string path = process + "/" + kind;
    const std::vector<IdRange> ranges = MappedIds(path);
    if (Covers(ranges, first, last)) continue;
    std::string known;
    for (const IdRange& range : ranges)
      known += fmt::format("{}{}-{}", known.empty() ? "" : ", ", range.first, range.last);
    return FailedPreconditionError(fmt::format("--worker-user-ids {}-{} are not all mapped here; {} has {}",
                                               first, last, path, known.empty() ? "none" : known));
  }
  return OkStatus();
}

Result<UserIds::Share> UserIds::Take() {
  MutexLock lock(mutex_);
  const uint64_t count = uint64_t{last_} - first_ + 1;
  for (uint64_t tried = 0; tried < count; ++tried) {
    const auto id = static_cast<uint32_t>(first_ + next_++ % count);
    if (!taken_.insert(id).second) continue;
    return Share(new uint32_t(id), [ids = shared_from_this()](const uint32_t* taken) {
      ids->Return(*taken);
      delete taken;
    });
  }
  return ResourceExhaustedError("all " + std::to_string(count) + " users of --worker-user-ids are in use");
}

void UserIds::Return(uint32_t id) {
  MutexLock lock(mutex_);
  taken_.erase(id);
}

}  // namespace braid
