// MessageIds: finds the message of a stream that a packet answers, by the packet's time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace braid {

// Not thread-safe.
class MessageIds {
 public:
  // Maximum number of remembered ids; beyond it, the earliest times are forgotten.
  static constexpr size_t kMost = 4096;

  void Add(int64_t timestamp, const std::string& id) {
    // A message with the id of the previous one in time needs no entry. All messages of a client that gives
    // no ids are such messages.
    if (Find(timestamp) == id) return;
    ids_.insert_or_assign(timestamp, id);
    if (ids_.size() > kMost) ids_.erase(ids_.begin());
  }
  // Returns the id of the message at that time, or of the last one before it, since a generator's items
  // follow their input. "" if there is none.
  std::string Find(int64_t timestamp) const {
    const auto after = ids_.upper_bound(timestamp);
    return after == ids_.begin() ? std::string() : std::prev(after)->second;
  }
  size_t size() const { return ids_.size(); }

 private:
  std::map<int64_t, std::string> ids_;
};

}  // namespace braid
