// Shards: a tensor split along its first dimension, and tensors put together to one again.
//
// Cutting copies nothing: a shard is a view of its part. Stacking copies once, or not at all where the shards
// lie one behind the other in memory of one owner, as those of a tensor do that was split before.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "tensor/buffer.h"
#include "tensor/tensor.h"

namespace braid {

// More shards are refused.
inline constexpr int64_t kMostShards = 10000;

// Tensors that become one: `counts` stands in front of their common shape, and says how they are grouped.
struct Shards {
  Shape counts;
  std::vector<Tensor> tensors;
};

// Into how many shards tensors are split: as many as `demultiply` says when that is above 0, else as many as
// their first dimension has. `who` names the demultiplexer. Errors, as Fault:
// kPipelineStringDemultiplicationUnsupported, kPipelineWrongNumberOfDimensionsToDemultiply (below 2),
// kPipelineTooLargeDimensionSizeToDemultiply, kPipelineWrongDimensionSizeToDemultiply,
// kPipelineDemultiplexerNoResults, kInternalError for bytes that do not fit the shape.
Result<uint32_t> CountShards(const std::string& who, const std::vector<const Tensor*>& tensors,
                             int32_t demultiply);

// The `index`-th of `count` shards. REQUIRES: CountShards() said so.
Tensor Shard(const Tensor& tensor, uint32_t index, uint32_t count);

// Puts shards that know the flows of one scope together to those of the scope around it. `who` names what
// gathers, here as in Stack(). Errors: kPipelineInconsistentShardDimensions when they differ in their counts.
Result<Shards> Join(const std::string& who, std::vector<Shards> parts);

// One tensor, in memory of `allocator` when there is something to copy. Errors:
// kPipelineInconsistentShardDimensions when they differ in shape or type, kInternalError when the result
// would be larger than memory can be, and those of the allocator.
Result<Tensor> Stack(const std::string& who, Shards shards, BufferAllocator& allocator);

}  // namespace braid
