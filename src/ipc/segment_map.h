// The segments that a peer has handed over, by the names it gave them.
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
  // Takes the place of one with the same name.
  void Add(std::shared_ptr<Segment> segment);
  // The peer does not use the segment any more. It stays mapped while somebody holds it.
  void Remove(uint32_t id);
  // Null when it is not there.
  std::shared_ptr<Segment> Find(uint32_t id) const;
  // Waits for another thread to Add() it. Null after `timeout_ns`.
  std::shared_ptr<Segment> WaitFor(uint32_t id, int64_t timeout_ns);
  // Finds a segment, taking what waits on the channel's socket when it is not there yet. A peer sends a
  // segment before the first message that names it, so it is never waited for. Errors: INVALID_ARGUMENT when
  // it is not there; those of Channel::ReceiveSegment().
  Result<std::shared_ptr<Segment>> FindOrReceive(uint32_t id, Channel& channel);
  // The segment in which `address` lies, or null.
  std::shared_ptr<Segment> Containing(const void* address) const;
  size_t size() const;

 private:
  // Held while a segment goes from the socket into the map, so that another thread that looks for it does not
  // find it in neither. Taken before mutex_.
  Mutex receive_mutex_;
  mutable Mutex mutex_;
  CondVar added_;
  std::unordered_map<uint32_t, std::shared_ptr<Segment>> segments_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
