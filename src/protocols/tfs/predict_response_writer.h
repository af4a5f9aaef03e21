// Writes a PredictResponse as the slices of a gRPC message; large tensors are not copied.
#pragma once

#include <span>
#include <string>

#include "base/status.h"
#include "protocols/kserve/grpc_message_builder.h"
#include "serving/request.h"

namespace braid {

// Whether an output goes to a client that asked for the outputs in `filter`; none stands for all.
bool PassesFilter(std::span<const std::string> filter, std::string_view output);

// Numbers go into tensor_content, strings into string_val. REQUIRES: response.status.ok()
// Errors: INTERNAL for an output that no TensorProto can carry.
Result<EncodedMessage> EncodePredictResponse(const InferenceResponse& response,
                                             std::span<const std::string> filter);

}  // namespace braid
