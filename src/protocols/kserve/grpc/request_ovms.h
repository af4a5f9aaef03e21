// The rules for the contents of a ModelInferRequest to a servable of Dialect::kOvms.
#pragma once

#include "base/status.h"
#include "protocols/kserve/grpc/request_reader.h"
#include "serving/request.h"
#include "serving/servable.h"

namespace braid {

// Whether an input's bytes are in shared memory of the client, and not in the message.
bool LiesInRegion(const ParsedInput& input);

// The part of the check below that looks at no tensor: contents are raw or typed, and there are as many raw
// ones as inputs.
Status CheckOvmsStructure(const ParsedRequest& parsed);

// Checks, before any byte is copied, that contents are raw or typed, that there are as many raw ones as
// inputs, that datatypes are known, and that typed ones have as many values as the shape says. A fault of the
// shapes is reported before one of the values. Inputs in regions of shared memory have no contents. The
// inputs of `request` have the types and shapes of the message; they may get its names. Errors: as Fault.
Status CheckOvmsContents(const ServableInfo& info, const ParsedRequest& parsed, InferenceRequest& request);

}  // namespace braid
