// Texts in pipelines of custom nodes, whose interface has no type for them: a U8 matrix has one text a row,
// filled up with zeros. Clients see BYTES.
//
//   if (TakesStrings(spec) && input.type == DataType::kBytes) { input = StringsToRows(...) }   // request
//   if (GivesStrings(output)) { output = RowsToStrings(...) }                                  // response
//
// Any thread.
#pragma once

#include "base/status.h"
#include "serving/servable.h"
#include "tensor/buffer.h"
#include "tensor/tensor.h"

namespace braid {

// Whether an input takes texts in place of its numbers: it is of two dimensions, of U8.
bool TakesStrings(const TensorSpec& input);

// Whether an output of a pipeline leaves as texts: of two dimensions, of U8, with a name that ends in
// "_string".
bool GivesStrings(const Tensor& output);

// BYTES of shape [N] as U8 of shape [N, longest + 1]. Errors: kInvalidNoOfShapeDimensions, kInvalidValueCount
// and kInvalidStringInput (cut off, or too large with its zeros), or what the allocator says.
Result<Tensor> StringsToRows(const Tensor& strings, BufferAllocator& allocator);

// The inverse: each row up to its first zero. REQUIRES: `rows` is U8 of two dimensions, its data complete.
// Errors: kInternalError for more rows than a response can hold, or what the allocator says.
Result<Tensor> RowsToStrings(const Tensor& rows, BufferAllocator& allocator);

}  // namespace braid
