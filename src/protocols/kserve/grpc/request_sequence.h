// Reads the sequence of a ModelInferRequest from the two inputs of stateful models and from the header.
// Parameters are read elsewhere.
#pragma once

#include <string_view>

#include "base/status.h"
#include "protocols/inference/client_regions.h"
#include "protocols/kserve/grpc/request_reader.h"
#include "serving/request.h"
#include "serving/servable.h"

namespace braid {

// Sets the sequence of `request`, whose parameters were read before. For stateful models it removes the
// inputs that name the sequence, with their contents, from `parsed`; for other servables it reads only the
// header. `header` is empty if absent. Values may be raw, typed or in a region.
//
// Errors: those of NameSequence(). Before them kInvalidNoOfInputs or kInvalidMessageStructure if contents
// cannot be assigned to inputs, kInvalidUnexpectedInput for a repeated input, and those of ClientRegions.
Status TakeSequence(WireSegments segments, const ServableInfo& info, std::string_view header,
                    const ClientRegions& regions, ParsedRequest& parsed, InferenceRequest& request);

}  // namespace braid
