// What is done to a response before it is written, for the unary call and for streams alike.
#pragma once

#include "base/status.h"
#include "protocols/kserve/grpc_request_builder.h"
#include "serving/request.h"

namespace braid {

// Turns the outputs into classes, or puts them into the client's shared memory, where the client wants that.
// On failure the response becomes an error.
void ApplyAnswerOptions(const AnswerOptions& answer, InferenceResponse& response);

}  // namespace braid
