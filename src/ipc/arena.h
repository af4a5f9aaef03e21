// Arena: a BufferAllocator of shared memory that other processes can map.
//
// Blocks of up to 64 KiB are cut from slabs, one size class per slab. A larger block has its own segment, so
// that a tensor can be handed to another process without exposing its neighbours. The rest of such a segment
// is zeroed, so that it exposes no earlier tensor either.
//
// Freed blocks stay mapped and are reused last-in first-out, because touching fresh pages costs twenty times
// a copy. Trim() returns memory to the system that has been idle for a while, beyond `keep_bytes`. It is
// returned earlier if the budget is needed for blocks of another size.
//
// All state is in private memory, so a peer cannot corrupt it. Any thread may allocate and free; the arena's
// lock is held for a few instructions. Buffers may outlive the arena, which then keeps only the segments they
// lie in.
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
    // Trim() stops once at most this much is idle.
    size_t keep_bytes = size_t{64} << 20;
    // Idle memory beyond keep_bytes is returned after this time without use.
    int64_t idle_ns = 2'000'000'000;
    // Allocate() fails beyond this total size of segments. 0: no limit.
    size_t max_bytes = 0;
    // The name of max_bytes in error texts.
    const char* max_bytes_option = "";
  };

  // `ids` outlives the arena and all its buffers.
  Arena(SegmentIds& ids, const Options& options);
  ~Arena() override;

  // Returns a buffer whose owner is a SegmentBlock. Errors: UNAVAILABLE.
  Result<Buffer> Allocate(size_t size) override;
  // Returns whether the owner of a buffer is a block of this arena. REQUIRES: the caller holds the buffer.
  bool Made(const SegmentBlock& block) const;
  SegmentIds& ids() const;

  // Returns idle memory to the system. Returns the ids of segments that were destroyed since the last call;
  // the caller tells peers that map them.
  std::vector<uint32_t> Trim(int64_t now_ns);
  // Returns whether a later Trim() may find memory beyond keep_bytes, or has ids to report.
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
