// What of a ModelInferRequest names its sequence, beside its parameters: two inputs of stateful models, and
// the header.
#pragma once

#include <string_view>

#include "base/status.h"
#include "protocols/inference/client_regions.h"
#include "protocols/kserve/grpc/request_reader.h"
#include "serving/request.h"
#include "serving/servable.h"

namespace braid {

// Takes the inputs of a stateful model that name the sequence out of `parsed`, and their contents, and names
// the sequence of `request`, whose parameters are read. For other servables only the header does that.
// `header` is empty when there is none. Values may be raw, typed or in a region.
//
// Errors: those of NameSequence(); before them, where the values cannot be told from each other,
// kInvalidNoOfInputs or kInvalidMessageStructure, kInvalidUnexpectedInput for an input that is there twice,
// and those of ClientRegions.
Status TakeSequence(WireSegments segments, const ServableInfo& info, std::string_view header,
                    const ClientRegions& regions, ParsedRequest& parsed, InferenceRequest& request);

}  // namespace braid
