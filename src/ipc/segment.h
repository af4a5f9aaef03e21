// Segment: a piece of anonymous shared memory. It is a sealed memfd that is mapped here; a peer gets its
// descriptor over a socket. The kernel frees it with its last holder, however that process ended.
//
// A segment can also be memory of a GPU with such a descriptor (gpu/device_memory.h). It is then not mapped
// here, only handed on.
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

// The UUID of a GPU. Device numbers may differ between processes.
using GpuUuid = std::array<unsigned char, 16>;

class Segment : public SharedMapping {
 public:
  // Creates a zeroed segment of `size` bytes, rounded up to pages; its size cannot change. `id` is its name
  // in messages.
  static Result<std::shared_ptr<Segment>> Create(uint32_t id, size_t size);
  // Maps a segment that a peer made. `budget` may be null; all segments imported with it share it. Errors:
  // those of `budget`; INVALID_ARGUMENT if the descriptor is smaller than `size`, or is not an ordinary memfd
  // sealed as Create() does it. A peer that can shrink a segment could crash this process.
  static Result<std::shared_ptr<Segment>> Import(uint32_t id, UniqueFd fd, size_t size,
                                                 std::shared_ptr<SegmentBudget> budget = nullptr);
  // Wraps memory of a GPU, without inspecting it. Errors: those of `budget`, which counts no bytes for it.
  static Result<std::shared_ptr<Segment>> OfDevice(uint32_t id, UniqueFd fd, size_t size, const GpuUuid& gpu,
                                                   std::shared_ptr<SegmentBudget> budget = nullptr);
  ~Segment();

  uint32_t id() const { return id_; }
  int fd() const { return fd_.get(); }
  // The memory stays mapped, and can no longer be handed on.
  void CloseDescriptor() { fd_.Reset(); }
  // Memory of a GPU has a null base().
  bool on_device() const { return base() == nullptr; }
  // REQUIRES: on_device().
  const GpuUuid& gpu() const { return gpu_; }
  bool Contains(uint64_t offset, uint64_t length) const {
    return offset <= size() && length <= size() - offset;
  }

 private:
  Segment(uint32_t id, UniqueFd fd, std::byte* base, size_t size);

  const uint32_t id_;
  UniqueFd fd_;
  GpuUuid gpu_ = {};
  std::shared_ptr<SegmentBudget> budget_;  // counts this segment; null: not counted
};

// Allocates segment ids, unique within one process.
class SegmentIds {
 public:
  uint32_t Next() { return next_.fetch_add(1, std::memory_order_relaxed); }

 private:
  std::atomic<uint32_t> next_{1};
};

// The owner of a buffer in a segment. It gives access to the segment, so that the buffer can be passed on by
// handle.
class SegmentBlock : public BufferOwner, public SharedBytes {
 public:
  virtual const std::shared_ptr<Segment>& segment() const = 0;
  SharedMapping* mapping() const override { return segment().get(); }
};

// The location of bytes, as messages send it.
struct MemoryHandle {
  uint32_t segment = 0;
  uint64_t offset = 0;
  uint64_t size = 0;
};

}  // namespace braid
