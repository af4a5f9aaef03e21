// Writes ModelInferResponse and ModelStreamInferResponse as the slices of a gRPC message, without protobuf.
// One slice holds all small fields and small tensors. Large tensors are referenced without a copy; their
// buffers are released when gRPC has sent them.
#pragma once

#include <optional>
#include <string_view>

#include "base/status.h"
#include "protocols/grpc/message_builder.h"
#include "protocols/inference/output_plan.h"
#include "serving/request.h"

namespace braid {

// `plan` lists the outputs that are already in the client's shared memory; null: none.

// Returns the response of the unary call. REQUIRES: response.status.ok().
EncodedMessage EncodeUnaryResponse(std::string_view id, const InferenceResponse& response,
                                   const OutputPlan* plan = nullptr);

// Returns a successful response on a stream. `final` is its triton_final_response, which responses of graphs
// omit. REQUIRES: response.status.ok().
EncodedMessage EncodeStreamResponse(std::string_view id, const InferenceResponse& response,
                                    std::optional<bool> final, const OutputPlan* plan = nullptr);

// Returns an error on a stream. `response` gives the model's name and version. It is null if no model
// accepted the request; then these and the final flag are omitted.
EncodedMessage EncodeStreamError(std::string_view id, std::string_view message,
                                 const InferenceResponse* response, bool final);

}  // namespace braid
