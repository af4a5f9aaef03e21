// Builds an InferenceRequest from a parsed PredictRequest.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "protocols/tfs/predict_request_reader.h"
#include "serving/request.h"
#include "serving/servable.h"

namespace braid {

// Limit on filled bytes of a request: as in TensorFlow, a value field with one element fills a tensor of any
// shape.
inline constexpr size_t kMaxFilledBytes = size_t{64} << 20;

// Sets the inputs and requested outputs of `request`; moves out of `parsed`. Copies the bytes of all inputs
// once, into memory of servable.input_allocator(). Small tensors share one allocation; each large one has its
// own. Inputs that name the sequence for a stateful servable are read first and removed. `sequence_header` is
// the value of the header (empty: none). Errors: those of NameSequence(); INVALID_ARGUMENT for tensors with
// unreadable elements and for unknown outputs; those of the allocator. CheckRequest() makes the other checks.
Status BuildPredictRequest(WireSegments segments, ParsedPredictRequest& parsed, Servable& servable,
                           std::string_view sequence_header, InferenceRequest& request);

// Sets the requested outputs, each name once. Stateful servables add sequence_id to any others. Errors:
// INVALID_ARGUMENT for a name that is not an output.
Status SetRequestedOutputs(const ServableInfo& info, std::vector<std::string> names,
                           InferenceRequest& request);

}  // namespace braid
