// Makes an InferenceRequest out of a parsed PredictRequest.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "protocols/tfs/predict_request_reader.h"
#include "serving/request.h"
#include "serving/servable.h"

namespace braid {

// A value field with one element fills a tensor of any shape, as in TensorFlow; what a request gets filled so
// is bounded by this.
inline constexpr size_t kMaxFilledBytes = size_t{64} << 20;

// Fills the inputs and requested outputs of `request`; moves out of `parsed`. The bytes of all inputs are
// copied once, into memory of servable.input_allocator(): small tensors share one allocation, large ones have
// their own. What names the sequence of a request to a stateful servable is read first, and is no input then;
// `sequence_header` is what its header says of it (empty: nothing). Errors: those of NameSequence();
// INVALID_ARGUMENT for tensors whose elements cannot be read (the other checks are CheckRequest()'s) and for
// outputs that the servable does not have; those of the allocator.
Status BuildPredictRequest(WireSegments segments, ParsedPredictRequest& parsed, Servable& servable,
                           std::string_view sequence_header, InferenceRequest& request);

// Keeps each name once; of stateful servables, sequence_id is asked for with any other. Errors:
// INVALID_ARGUMENT for a name that is no output.
Status SetRequestedOutputs(const ServableInfo& info, std::vector<std::string> names,
                           InferenceRequest& request);

}  // namespace braid
