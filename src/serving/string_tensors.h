// Texts for servables of Dialect::kOvms that have no type for them: a U8 matrix has one text a row, filled up
// with zeros. Clients see BYTES.
#pragma once

#include <vector>

#include "base/status.h"
#include "serving/request.h"
#include "serving/servable.h"
#include "tensor/tensor.h"

namespace braid {

// Turns the inputs that are BYTES of shape [N], where the servable wants U8 of two dimensions, into U8 of
// shape [N, longest + 1]; to be called before CheckRequest(). The memory comes from the request's servable,
// if it has one. Cheap when there are none. Errors: kInvalidNoOfShapeDimensions, kInvalidValueCount,
// kInvalidStringInput (cut off, or too large with its zeros), or what the allocator says.
Status StringsToRows(const ServableInfo& info, InferenceRequest& request);

// Turns the outputs that are U8 of two dimensions and have a name that ends in "_string" into BYTES of shape
// [N], each row up to its first zero: what a pipeline does before it responds. REQUIRES: their data is
// complete. Errors: kInternalError for more rows than a response can hold, UNAVAILABLE.
Status RowsToStrings(std::vector<Tensor>& outputs);

}  // namespace braid
