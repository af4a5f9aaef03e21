// SegmentMap: the segments that a peer has handed over, by the peer's names for them.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "base/mutex.h"
#include "base/status.h"
#include "ipc/channel.h"
#include "ipc/segment.h"

namespace braid {

// Any thread.
class SegmentMap {
 public:
  // Adds a segment; replaces one with the same name.
  void Add(std::shared_ptr<Segment> segment);
  // Removes a segment that the peer no longer uses. It stays mapped while a holder exists.
  void Remove(uint32_t id);
  void Clear();
  // Returns null if there is none.
  std::shared_ptr<Segment> Find(uint32_t id) const;
  // Waits for another thread to Add() it. Returns null after `timeout_ns`.
  std::shared_ptr<Segment> WaitFor(uint32_t id, int64_t timeout_ns);
  // Finds a segment; if there is none, takes segments from the channel's socket. A peer sends a segment
  // before the first message that names it, so this never waits. Errors: INVALID_ARGUMENT if the peer has not
  // sent it; those of Channel::ReceiveSegment().
  Result<std::shared_ptr<Segment>> FindOrReceive(uint32_t id, Channel& channel);
  size_t size() const;

 private:
  // Held while a segment moves from the socket to the map, so that another thread cannot miss it in both.
  // Lock order: before mutex_.
  Mutex receive_mutex_;
  mutable Mutex mutex_;
  CondVar added_;
  std::unordered_map<uint32_t, std::shared_ptr<Segment>> segments_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
