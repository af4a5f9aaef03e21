// Arena: allocates buffers in shared memory which other processes can map.
//
// Blocks of up to 64 KiB are cut from slabs, a size class each; a larger one has a segment of its own, so
// that a tensor can be handed to another process without showing it its neighbours; what such a segment holds
// behind its buffer is zero, so that it shows no tensor of before either. Freed blocks stay mapped
// and are used again last-in first-out, because touching fresh pages costs twenty times a copy. What has been
// idle for a while beyond `keep_bytes` goes back to the system in Trim(), and earlier when the budget is
// needed for blocks of another size.
//
// All bookkeeping is in private memory: nothing that a peer writes can confuse it. Any thread may allocate
// and free; the lock is this arena's own and is held for a few instructions. Buffers may outlive the arena,
// which then keeps no more than what they lie in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "ipc/segment.h"
#include "tensor/buffer.h"

namespace braid {

class Arena final : public BufferAllocator {
 public:
  struct Options {
    // Trim() leaves off as soon as no more than this is idle.
    size_t keep_bytes = size_t{64} << 20;
    // Idle memory beyond it goes back when it was not used for so long.
    int64_t idle_ns = 2'000'000'000;
    // Allocate() fails beyond so many bytes of segments. 0: no limit.
    size_t max_bytes = 0;
    // Names max_bytes in the error text.
    const char* max_bytes_option = "";
  };

  // `ids` outlives the arena and all its buffers.
  Arena(SegmentIds& ids, const Options& options);
  ~Arena() override;

  // The buffer's owner is a SegmentBlock. Errors: UNAVAILABLE.
  Result<Buffer> Allocate(size_t size) override;
  // Whether the owner of a buffer is a block of this arena, which the caller holds.
  bool Made(const SegmentBlock& block) const;
  SegmentIds& ids() const;

  // Gives idle memory back. Returns the ids of the segments that are gone from here since the last call;
  // peers which map them are to be told.
  std::vector<uint32_t> Trim(int64_t now_ns);
  // Whether a later Trim() may find more than there is to keep, or has something to report.
  bool has_excess() const;

  struct Usage {
    size_t segment_bytes = 0;  // mapped, or about to be
    size_t idle_bytes = 0;     // in segments without a block in use
    size_t segments = 0;
  };
  Usage usage() const;

 private:
  class State;
  std::shared_ptr<State> state_;  // shared with the blocks in use, which may outlive the arena
};

}  // namespace braid
