// Writes a PredictResponse as the slices of a gRPC message; large tensors are not copied.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "protocols/grpc/message_builder.h"
#include "serving/request.h"

namespace braid {

// What the client of a request is to see of its response.
struct PredictResponseForm {
  // The outputs that it asked for; none stands for all.
  std::vector<std::string> filter;
  // Whether the answer is a stateful servable's: its output sequence_id passes every filter, since a client
  // that does not know the id cannot go on.
  bool stateful = false;
};

// Numbers go into tensor_content, strings into string_val, and the sequence_id of a stateful servable into
// uint64_val, where clients look for it. REQUIRES: response.status.ok()
// Errors: INTERNAL for an output that no TensorProto can carry.
Result<EncodedMessage> EncodePredictResponse(const InferenceResponse& response,
                                             const PredictResponseForm& form);

}  // namespace braid
