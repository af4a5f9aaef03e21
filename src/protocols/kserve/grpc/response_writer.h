// Writes ModelInferResponse and ModelStreamInferResponse as the slices of a gRPC message, without protobuf:
// one slice holds all small fields and small tensors; large tensors are referenced where they lie, and their
// buffers let go when gRPC has sent them.
#pragma once

#include <optional>
#include <string_view>

#include "base/status.h"
#include "protocols/grpc/message_builder.h"
#include "protocols/inference/output_plan.h"
#include "serving/request.h"

namespace braid {

// `plan` says which outputs have their bytes in the client's shared memory already; null: none.

// The answer of the unary call. REQUIRES: response.status.ok()
EncodedMessage EncodeUnaryResponse(std::string_view id, const InferenceResponse& response,
                                   const OutputPlan* plan = nullptr);

// A good response on a stream; `final` is its triton_final_response, which those of graphs have not.
// REQUIRES: response.status.ok()
EncodedMessage EncodeStreamResponse(std::string_view id, const InferenceResponse& response,
                                    std::optional<bool> final, const OutputPlan* plan = nullptr);

// An error on a stream. `response` gives model name and version; null when the request never got so far, and
// then neither these nor the final flag are written.
EncodedMessage EncodeStreamError(std::string_view id, std::string_view message,
                                 const InferenceResponse* response, bool final);

}  // namespace braid
