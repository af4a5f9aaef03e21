// MessageIds: which message of a stream a packet answers, told by its time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace braid {

// Not for use by two threads at once.
class MessageIds {
 public:
  // Ids that are remembered; beyond these, the earliest times are forgotten.
  static constexpr size_t kMost = 4096;

  void Add(int64_t timestamp, const std::string& id) {
    // A message with the id of the one before it in time, as all have whose client gives none, needs no
    // entry.
    if (Find(timestamp) == id) return;
    ids_.insert_or_assign(timestamp, id);
    if (ids_.size() > kMost) ids_.erase(ids_.begin());
  }
  // The id of the message at that time, or the last one before it: a generator's items follow its input. ""
  // when there is none.
  std::string Find(int64_t timestamp) const {
    const auto after = ids_.upper_bound(timestamp);
    return after == ids_.begin() ? std::string() : std::prev(after)->second;
  }
  size_t size() const { return ids_.size(); }

 private:
  std::map<int64_t, std::string> ids_;
};

}  // namespace braid
