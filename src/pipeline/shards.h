// Shards: splits a tensor along its first dimension, and stacks tensors into one.
//
// A split copies nothing: a shard is a view of its part. Stacking copies once. It copies nothing if the
// shards are adjacent in memory of one owner, as the shards of one tensor are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "tensor/buffer.h"
#include "tensor/tensor.h"

namespace braid {

// The largest number of shards; more are refused.
inline constexpr int64_t kMostShards = 10000;

// Tensors to be stacked. `counts` are the dimensions in front of their common shape, which group them.
struct Shards {
  Shape counts;
  std::vector<Tensor> tensors;
};

// Returns the number of shards of tensors: `demultiply` if it is above 0, else their first dimension. `who`
// names the demultiplexer. Errors, as Fault: kPipelineStringDemultiplicationUnsupported,
// kPipelineWrongNumberOfDimensionsToDemultiply (below 2), kPipelineTooLargeDimensionSizeToDemultiply,
// kPipelineWrongDimensionSizeToDemultiply, kPipelineDemultiplexerNoResults, kInternalError for bytes that do
// not fit the shape.
Result<uint32_t> CountShards(const std::string& who, const std::vector<const Tensor*>& tensors,
                             int32_t demultiply);

// Returns shard `index` of `count`. REQUIRES: CountShards() returned `count`.
Tensor Shard(const Tensor& tensor, uint32_t index, uint32_t count);

// Joins the shards of all flows of a scope into the shards of the scope around it. `who` names the gathering
// port, here and in Stack(). Errors: kPipelineInconsistentShardDimensions when their counts differ.
Result<Shards> Join(const std::string& who, std::vector<Shards> parts);

// Stacks shards into one tensor, in memory of `allocator` if a copy is needed. Errors:
// kPipelineInconsistentShardDimensions when they differ in shape or type, kInternalError when the result
// would exceed the address space, and those of the allocator.
Result<Tensor> Stack(const std::string& who, Shards shards, BufferAllocator& allocator);

}  // namespace braid
