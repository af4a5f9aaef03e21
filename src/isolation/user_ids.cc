#include "isolation/user_ids.h"

#include <string>

namespace braid {

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
