// Writes a PredictResponse as the slices of a gRPC message, without copying large tensors.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "protocols/grpc/message_builder.h"
#include "serving/request.h"

namespace braid {

// The client's wishes for the response of a request.
struct PredictResponseForm {
  // The requested outputs; empty means all.
  std::vector<std::string> filter;
  // Whether a stateful servable answers. Its output sequence_id passes every filter, since a client that does
  // not know the id cannot continue.
  bool stateful = false;
};

// Returns the encoded response. Numbers go into tensor_content, strings into string_val. The sequence_id of a
// stateful servable goes into uint64_val, where clients expect it. Errors: INTERNAL for an output that does
// not fit into a TensorProto. REQUIRES: response.status.ok().
Result<EncodedMessage> EncodePredictResponse(const InferenceResponse& response,
                                             const PredictResponseForm& form);

}  // namespace braid
