// UserIds: the users that workers of level separate run as, each by itself.
//
//   auto ids = std::make_shared<UserIds>(1879048192, 1879052287);
//   BRAID_ASSIGN_OR_RETURN(UserIds::Share user, ids->Take());
//   *user;  // nobody else's until the last share goes
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "base/mutex.h"
#include "base/status.h"

namespace braid {

// Whether the ids from `first` to `last` are users and groups of this process's user namespace, so that a process can become
// one. Errors: FAILED_PRECONDITION: which there are. `process` is another /proc/self for tests.
Status CheckUserIds(uint32_t first, uint32_t last, const std::string& process = "/proc/self");

// All methods may be called from any thread.
class UserIds : public std::enable_shared_from_this<UserIds> {
 public:
  using Share = std::shared_ptr<const uint32_t>;

  // REQUIRES: first <= last.
  UserIds(uint32_t first, uint32_t last) : first_(first), last_(last) {}

  // An id that was not taken for the longest time that the numbers allow: what a process of its last user has left
  // behind is not the next one's at once. Errors: RESOURCE_EXHAUSTED.
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
