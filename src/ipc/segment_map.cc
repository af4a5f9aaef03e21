#include "ipc/segment_map.h"

#include <chrono>

namespace braid {

void SegmentMap::Add(std::shared_ptr<Segment> segment) {
  std::lock_guard lock(mutex_);
  if (segments_.size() >= kMaxSegments) return;
  const uint32_t id = segment->id();
  segments_[id] = std::move(segment);
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
  std::unique_lock lock(mutex_);
  auto there = [this, id] { return segments_.contains(id); };
  if (!added_.wait_for(lock, std::chrono::nanoseconds(timeout_ns), there)) return nullptr;
  return segments_[id];
}

Result<std::shared_ptr<Segment>> SegmentMap::FindOrReceive(uint32_t id, Channel& channel) {
  while (true) {
    if (auto found = Find(id)) return found;
    BRAID_ASSIGN_OR_RETURN(auto received, channel.ReceiveSegment(false));
    if (!received)
      return InvalidArgumentError("a message names segment " + std::to_string(id) +
                                  ", which was not handed over");
    Add(std::move(received));
  }
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
