// SharedBuilds: builds an expensive value once for all concurrent requests, and shares it as long as it is
// used.
//
//   SharedBuilds<Environment> environments;
//   auto one = environments.Get(key, [&] { return Unpack(path); }, [] { return OkStatus(); });
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "base/status.h"

namespace braid {

// Any thread.
template <class T>
class SharedBuilds {
 public:
  using Value = Result<std::shared_ptr<T>>;

  // Returns the value of `key`: the one in use, or the outcome of the build in progress, or that of `build`,
  // which runs on this thread. A failed build fails all calls that waited for it; the next call tries again.
  // `waiting` is called about each second while another thread builds; its error ends the wait.
  Value Get(const std::string& key, const std::function<Value()>& build,
            const std::function<Status()>& waiting) {
    MutexLock lock(mutex_);
    std::shared_ptr<Attempt> attempt;
    if (auto found = entries_.find(key); found != entries_.end()) {
      if (auto value = found->second.value.lock()) return value;
      attempt = found->second.attempt;
    }
    if (attempt) return Await(*attempt, waiting);

    attempt = std::make_shared<Attempt>();
    ForgetUnused();
    entries_[key].attempt = attempt;
    lock.Unlock();
    Value value = build();
    lock.Lock();
    if (value.ok()) {
      entries_[key] = {nullptr, *value};
    } else {
      entries_.erase(key);
    }
    attempt->outcome = std::make_unique<Value>(value);
    changed_.NotifyAll();
    return value;
  }

 private:
  // Shared by the map and by waiting threads, which need the outcome after it has left the map.
  struct Attempt {
    std::unique_ptr<Value> outcome;  // guarded by mutex_
  };
  struct Entry {
    std::shared_ptr<Attempt> attempt;  // while the build is in progress
    std::weak_ptr<T> value;
  };

  Value Await(const Attempt& attempt, const std::function<Status()>& waiting) BRAID_REQUIRES(mutex_) {
    constexpr std::chrono::seconds kInterval(1);
    auto tell_at = std::chrono::steady_clock::now() + kInterval;
    while (attempt.outcome == nullptr) {
      if (changed_.WaitUntil(mutex_, tell_at) || attempt.outcome != nullptr) continue;
      {
        const MutexUnlock unlock(mutex_);
        BRAID_RETURN_IF_ERROR(waiting());
      }
      tell_at = std::chrono::steady_clock::now() + kInterval;
    }
    return *attempt.outcome;
  }

  void ForgetUnused() BRAID_REQUIRES(mutex_) {
    std::erase_if(entries_,
                  [](const auto& entry) { return !entry.second.attempt && entry.second.value.expired(); });
  }

  Mutex mutex_;
  CondVar changed_;
  std::map<std::string, Entry> entries_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
