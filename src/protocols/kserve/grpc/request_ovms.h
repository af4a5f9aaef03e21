// Rules for the contents of a ModelInferRequest to a servable of Dialect::kOvms.
#pragma once

#include "base/status.h"
#include "protocols/kserve/grpc/request_reader.h"
#include "serving/request.h"
#include "serving/servable.h"

namespace braid {

// Returns whether the input's bytes are in the client's shared memory instead of the message.
bool LiesInRegion(const ParsedInput& input);

// Does the part of CheckOvmsContents() that needs no tensor: contents are raw or typed, with one raw entry
// per input.
Status CheckOvmsStructure(const ParsedRequest& parsed);

// Checks the contents before any byte is copied. They are raw or typed, with one raw entry per input.
// Datatypes must be known, and typed contents have as many values as the shape implies. A fault of the shapes
// is reported before one of the values. Inputs in shared memory have no contents. The inputs of `request`
// have the types and shapes of the message, and may get its names. Errors: as Fault.
Status CheckOvmsContents(const ServableInfo& info, const ParsedRequest& parsed, InferenceRequest& request);

}  // namespace braid
