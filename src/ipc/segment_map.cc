#include "ipc/segment_map.h"

#include <algorithm>
#include <chrono>

namespace braid {
namespace {

constexpr int kMostAtOnce = 1 << 13;

}  // namespace

void SegmentMap::Add(std::shared_ptr<Segment> segment) {
  // A replaced segment is unmapped with the argument, after the lock is released.
  MutexLock lock(mutex_);
  std::swap(segments_[segment->id()], segment);
  added_.NotifyAll();
}

void SegmentMap::Remove(uint32_t id) {
  std::shared_ptr<Segment> gone;  // unmapped after the lock is released
  MutexLock lock(mutex_);
  auto it = segments_.find(id);
  if (it == segments_.end()) return;
  gone = std::move(it->second);
  segments_.erase(it);
}

void SegmentMap::Clear() {
  std::unordered_map<uint32_t, std::shared_ptr<Segment>> gone;  // unmapped after the lock is released
  MutexLock lock(mutex_);
  gone.swap(segments_);
}

std::shared_ptr<Segment> SegmentMap::Find(uint32_t id) const {
  MutexLock lock(mutex_);
  auto it = segments_.find(id);
  return it == segments_.end() ? nullptr : it->second;
}

std::shared_ptr<Segment> SegmentMap::WaitFor(uint32_t id, int64_t timeout_ns) {
  // A longer wait would overflow the clock's range.
  constexpr std::chrono::nanoseconds kLongest = std::chrono::hours(24 * 365);
  MutexLock lock(mutex_);
  const auto deadline =
      std::chrono::steady_clock::now() + std::min(std::chrono::nanoseconds(timeout_ns), kLongest);
  for (bool in_time = true;; in_time = added_.WaitUntil(mutex_, deadline)) {
    if (const auto found = segments_.find(id); found != segments_.end()) return found->second;
    if (!in_time) return nullptr;
  }
}

Result<std::shared_ptr<Segment>> SegmentMap::FindOrReceive(uint32_t id, Channel& channel) {
  if (auto found = Find(id)) return found;
  MutexLock lock(receive_mutex_);
  // Bounded, because a hostile peer could send without end.
  for (int i = 0; i < kMostAtOnce; ++i) {
    if (auto found = Find(id)) return found;
    BRAID_ASSIGN_OR_RETURN(auto received, channel.ReceiveSegment(false));
    if (!received) break;
    Add(std::move(received));
  }
  return InvalidArgumentError("a message names unknown segment " + std::to_string(id));
}

size_t SegmentMap::size() const {
  MutexLock lock(mutex_);
  return segments_.size();
}

}  // namespace braid
