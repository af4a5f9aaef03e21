// Strings for servables of Dialect::kOvms without a string type. The servable sees a U8 matrix with one text
// per row, padded with zeros; clients see BYTES.
#pragma once

#include <vector>

#include "base/status.h"
#include "serving/request.h"
#include "serving/servable.h"
#include "tensor/tensor.h"

namespace braid {

// Turns BYTES inputs of shape [N] into U8 of shape [N, longest + 1] where the servable expects U8 of two
// dimensions. Called before CheckRequest(). Allocates from the request's servable, if it has one. Cheap
// without such inputs. Errors: kInvalidNoOfShapeDimensions, kInvalidValueCount, kInvalidStringInput
// (truncated, or too large when padded), or the allocator's error.
Status StringsToRows(const ServableInfo& info, InferenceRequest& request);

// Turns U8 outputs of two dimensions whose names end in "_string" into BYTES of shape [N], each row up to its
// first zero. Pipelines call it before they respond. Errors: kInternalError for more rows than a response can
// hold; UNAVAILABLE. REQUIRES: the outputs' data is complete.
Status RowsToStrings(std::vector<Tensor>& outputs);

}  // namespace braid
