// Pieces: a tensor cut along its first dimension, and tensors put together to one again.
//
// Cutting copies nothing: a piece is a view of its part. Stacking copies once, or not at all where the pieces
// lie one behind the other in memory of one owner, as those of a tensor do that was cut before.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "tensor/buffer.h"
#include "tensor/tensor.h"

namespace braid {

// More pieces are refused.
inline constexpr int64_t kMostPieces = 10000;

// Tensors that become one: `counts` stands in front of their common shape, and says how they are grouped.
struct Pieces {
  Shape counts;
  std::vector<Tensor> tensors;
};

// Into how many pieces tensors are cut: as many as `demultiply` says when that is above 0, else as many as
// their first dimension has. `who` names the demultiplexer. Errors, as OvmsCode:
// kPipelineStringDemultiplicationUnsupported, kPipelineWrongNumberOfDimensionsToDemultiply (below 2),
// kPipelineTooLargeDimensionSizeToDemultiply, kPipelineWrongDimensionSizeToDemultiply,
// kPipelineDemultiplexerNoResults, kInternalError for bytes that do not fit the shape.
Result<uint32_t> CountPieces(const std::string& who, const std::vector<const Tensor*>& tensors,
                             int32_t demultiply);

// The `index`-th of `count` pieces. REQUIRES: CountPieces() said so.
Tensor Piece(const Tensor& tensor, uint32_t index, uint32_t count);

// Puts pieces that know the flows of one scope together to those of the scope around it. `who` names what
// gathers, here as in Stack(). Errors: kPipelineInconsistentShardDimensions when they differ in their counts.
Result<Pieces> Join(const std::string& who, std::vector<Pieces> parts);

// One tensor, in memory of `allocator` when there is something to copy. Errors:
// kPipelineInconsistentShardDimensions when they differ in shape or type, kInternalError when the result
// would be larger than memory can be, and those of the allocator.
Result<Tensor> Stack(const std::string& who, Pieces pieces, BufferAllocator& allocator);

}  // namespace braid
