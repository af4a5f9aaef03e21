// UserIds: the user ids for workers of level separate; each worker gets one id.
//
//   auto ids = std::make_shared<UserIds>(1879048192, 1879052287);
//   BRAID_ASSIGN_OR_RETURN(UserIds::Share user, ids->Take());
//   *user;  // taken until the last share is released
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "base/mutex.h"
#include "base/status.h"

namespace braid {

// Checks that the ids from `first` to `last` are users and groups of this process's user namespace, so that a
// process can switch to them. Errors: FAILED_PRECONDITION, with the available ids. Tests pass another path as
// `process`.
Status CheckUserIds(uint32_t first, uint32_t last, const std::string& process = "/proc/self");

// Thread-safe.
class UserIds : public std::enable_shared_from_this<UserIds> {
 public:
  using Share = std::shared_ptr<const uint32_t>;

  // REQUIRES: first <= last.
  UserIds(uint32_t first, uint32_t last) : first_(first), last_(last) {}

  // Returns the free id that was unused for the longest time, so that the next user does not soon get files
  // that the last one has left. Errors: RESOURCE_EXHAUSTED.
  Result<Share> Take();

 private:
  void Return(uint32_t id);

  const uint32_t first_;
  const uint32_t last_;
  Mutex mutex_;
  std::set<uint32_t> taken_ BRAID_GUARDED_BY(mutex_);
  uint64_t next_ BRAID_GUARDED_BY(mutex_) = 0;  // counted from first_
};

}  // namespace braid
