// Segment: a piece of shared memory without a name. It is a sealed memfd, mapped here; a peer gets it by its
// descriptor over a socket, and the kernel frees it with its last holder, however that one ended.
//
// Or it is memory of a GPU with such a descriptor (gpu/device_memory.h): then it is not mapped here, and only handed on.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.h"
#include "base/unique_fd.h"
#include "ipc/segment_budget.h"
#include "tensor/buffer.h"
#include "tensor/shared_bytes.h"

namespace braid {

// The UUID of a GPU: processes may count their devices differently.
using GpuUuid = std::array<unsigned char, 16>;

class Segment : public SharedMapping {
 public:
  // A new segment of `size` bytes (rounded up to pages), zeroed, of a size that nobody can change. `id` names
  // it in messages.
  static Result<std::shared_ptr<Segment>> Create(uint32_t id, size_t size);
  // Maps a segment that a peer made. Errors: INVALID_ARGUMENT when the descriptor is not an ordinary memfd
  // sealed as Create() does it (a peer that can shrink it could crash us) or is smaller than `size`; those of
  // `budget`, which may be null and is shared by all that was imported with it.
  static Result<std::shared_ptr<Segment>> Import(uint32_t id, UniqueFd fd, size_t size,
                                                 std::shared_ptr<SegmentBudget> budget = nullptr);
  // Memory of a GPU, of which nothing is looked at. Errors: those of `budget`, which counts no bytes for it.
  static Result<std::shared_ptr<Segment>> OfDevice(uint32_t id, UniqueFd fd, size_t size, const GpuUuid& gpu,
                                                   std::shared_ptr<SegmentBudget> budget = nullptr);
  ~Segment();

  uint32_t id() const { return id_; }
  int fd() const { return fd_.get(); }
  // base() is null for memory of a GPU.
  bool on_device() const { return base() == nullptr; }
  // REQUIRES: on_device().
  const GpuUuid& gpu() const { return gpu_; }
  bool Contains(uint64_t offset, uint64_t length) const {
    return offset <= size() && length <= size() - offset;
  }

 private:
  Segment(uint32_t id, UniqueFd fd, std::byte* base, size_t size);

  const uint32_t id_;
  const UniqueFd fd_;
  GpuUuid gpu_ = {};
  std::shared_ptr<SegmentBudget> budget_;  // what it is counted in; null: nothing
};

// Gives out the ids of segments; unique within one process.
class SegmentIds {
 public:
  uint32_t Next() { return next_.fetch_add(1, std::memory_order_relaxed); }

 private:
  std::atomic<uint32_t> next_{1};
};

// The owner of a buffer that lies in a segment, so that it can be passed on by its place.
class SegmentBlock : public BufferOwner, public SharedBytes {
 public:
  virtual const std::shared_ptr<Segment>& segment() const = 0;
  SharedMapping* mapping() const override { return segment().get(); }
};

// Where bytes are, as it travels in messages.
struct MemoryHandle {
  uint32_t segment = 0;
  uint64_t offset = 0;
  uint64_t size = 0;
};

}  // namespace braid
