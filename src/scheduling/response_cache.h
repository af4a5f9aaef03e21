// ResponseCache: responses kept for requests that come again with the same inputs, within a budget of bytes.
//
// One for the whole server; a model takes part when its configuration says `response_cache { enable: true }`.
// The least recently used response leaves first. What is kept is a copy, so that no worker's memory is held.
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
  // types, shapes and bytes, the requested outputs, and the parameters. The id, the time-out and the priority
  // of a request do not count.
  struct Key {
    uint64_t low = 0;
    uint64_t high = 0;
    bool operator==(const Key&) const = default;
  };
  // Takes some 0.1 ns a byte. `load` tells a loaded model from what was loaded under its name before.
  Key KeyOf(uint64_t load, const InferenceRequest& request) const;

  // Any thread; the lock is held for a look-up alone.
  std::optional<InferenceResponse> Find(const Key& key);
  // Keeps a copy of a response, unless it alone would take more than the whole budget. An entry that is there
  // already stays.
  void Insert(const Key& key, uint64_t load, const InferenceResponse& response);
  // Drops what a model has left when it goes.
  void Forget(uint64_t load);
  // A number for KeyOf() that no other load has.
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
    std::shared_ptr<const InferenceResponse> response;  // shared with look-ups under way
  };
  struct KeyHash {
    size_t operator()(const Key& key) const { return key.low; }
  };
  using Entries = std::list<Entry>;

  // The entry's response, to be let go without the lock.
  std::shared_ptr<const InferenceResponse> Remove(Entries::iterator entry) BRAID_REQUIRES(mutex_);

  const size_t max_bytes_;
  // Nobody outside can make up inputs that meet in one key.
  const uint64_t seed_;

  mutable Mutex mutex_;
  Entries entries_ BRAID_GUARDED_BY(mutex_);  // the most recently used first
  std::unordered_map<Key, Entries::iterator, KeyHash> index_ BRAID_GUARDED_BY(mutex_);
  size_t bytes_ BRAID_GUARDED_BY(mutex_) = 0;
  uint64_t last_load_ BRAID_GUARDED_BY(mutex_) = 0;
};

}  // namespace braid
