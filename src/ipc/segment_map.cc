#include "ipc/segment_map.h"

#include <algorithm>
#include <chrono>

namespace braid {
namespace {

constexpr int kMostAtOnce = 1 << 13;

}  // namespace

void SegmentMap::Add(std::shared_ptr<Segment> segment) {
  // A segment that is replaced is unmapped with the argument, after the lock is given up.
  std::lock_guard lock(mutex_);
  std::swap(segments_[segment->id()], segment);
  added_.notify_all();
}

void SegmentMap::Remove(uint32_t id) {
  std::shared_ptr<Segment> gone;  // unmapped after the lock is given up
  std::lock_guard lock(mutex_);
  auto it = segments_.find(id);
  if (it == segments_.end()) return;
  gone = std::move(it->second);
  segments_.erase(it);
}

std::shared_ptr<Segment> SegmentMap::Find(uint32_t id) const {
  std::lock_guard lock(mutex_);
  auto it = segments_.find(id);
  return it == segments_.end() ? nullptr : it->second;
}

std::shared_ptr<Segment> SegmentMap::WaitFor(uint32_t id, int64_t timeout_ns) {
  // More would leave the clock's range.
  constexpr std::chrono::nanoseconds kLongest = std::chrono::hours(24 * 365);
  std::unique_lock lock(mutex_);
  auto there = [this, id] { return segments_.contains(id); };
  if (!added_.wait_for(lock, std::min(std::chrono::nanoseconds(timeout_ns), kLongest), there)) return nullptr;
  return segments_[id];
}

Result<std::shared_ptr<Segment>> SegmentMap::FindOrReceive(uint32_t id, Channel& channel) {
  if (auto found = Find(id)) return found;
  std::lock_guard lock(receive_mutex_);
  // Bounded, because a hostile peer could send without end.
  for (int i = 0; i < kMostAtOnce; ++i) {
    if (auto found = Find(id)) return found;
    BRAID_ASSIGN_OR_RETURN(auto received, channel.ReceiveSegment(false));
    if (!received) break;
    Add(std::move(received));
  }
  return InvalidArgumentError("a message names segment " + std::to_string(id) +
                              ", which was not handed over");
}

std::shared_ptr<Segment> SegmentMap::Containing(const void* address) const {
  const auto* at = static_cast<const std::byte*>(address);
  std::lock_guard lock(mutex_);
  for (const auto& [id, segment] : segments_) {
    if (at >= segment->base() && at < segment->base() + segment->size()) return segment;
  }
  return nullptr;
}

size_t SegmentMap::size() const {
  std::lock_guard lock(mutex_);
  return segments_.size();
}

}  // namespace braid
