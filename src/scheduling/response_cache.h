// ResponseCache: caches responses for repeated requests with the same inputs, within a byte budget.
//
// One cache serves the whole server; a model uses it if its configuration says `response_cache { enable: true
// }`. The least recently used response is evicted first. Responses are copied, so that the cache holds no
// worker's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <unordered_map>

#include "base/mutex.h"
#include "serving/request.h"

namespace braid {

class ResponseCache {
 public:
  explicit ResponseCache(size_t max_bytes);

  // A hash of everything that the response can depend on: the loaded model, the inputs with their names,
  // types, shapes and bytes, the requested outputs, and the parameters. The id, the timeout and the priority
  // of a request are left out.
  struct Key {
    uint64_t low = 0;
    uint64_t high = 0;
    bool operator==(const Key&) const = default;
  };
  // Takes some 0.1 ns per byte. `load` distinguishes a loaded model from earlier models of the same name.
  Key KeyOf(uint64_t load, const InferenceRequest& request) const;

  // Returns a cached response. Any thread; the lock is held only for the look-up.
  std::optional<InferenceResponse> Find(const Key& key);
  // Caches a copy of a response, unless it exceeds the budget by itself. An existing entry stays.
  void Insert(const Key& key, uint64_t load, const InferenceResponse& response);
  // Drops the entries of a model that is unloaded.
  void Forget(uint64_t load);
  // Returns a number for KeyOf() that no other load has.
  uint64_t NextLoad();

  struct Usage {
    size_t bytes = 0;
    size_t entries = 0;
  };
  Usage usage() const;

 private:
  struct Entry {
    Key key;
    uint64_t load = 0;
    size_t bytes = 0;
    std::shared_ptr<const InferenceResponse> response;  // shared with look-ups in progress
  };
  struct KeyHash {
    size_t operator()(const Key& key) const { return key.low; }
  };
  using Entries = std::list<Entry>;

  // Removes an entry and returns its response, to be destroyed without the lock.
  std::shared_ptr<const InferenceResponse> Remove(Entries::iterator entry) BRAID_REQUIRES(mutex_);

  const size_t max_bytes_;
  // A secret seed: clients cannot construct inputs with the same key.
  const uint64_t seed_;

  mutable Mutex mutex_;
  Entries entries_ BRAID_GUARDED_BY(mutex_);  // the most recently used first
  std::unordered_map<Key, Entries::iterator, KeyHash> index_ BRAID_GUARDED_BY(mutex_);
  size_t bytes_ BRAID_GUARDED_BY(mutex_) = 0;
  uint64_t last_load_ BRAID_GUARDED_BY(mutex_) = 0;
};

}  // namespace braid
