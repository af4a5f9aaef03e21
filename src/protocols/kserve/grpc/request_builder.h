// Makes an InferenceRequest out of a parsed ModelInferRequest: reserved parameters, input bytes in the memory
// that the servable reads from, and what the client wants of the answer.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "protocols/inference/client_regions.h"
#include "protocols/inference/dialect.h"
#include "protocols/inference/output_plan.h"
#include "protocols/kserve/grpc/request_reader.h"
#include "serving/request.h"
#include "serving/servable.h"

namespace braid {

// What the protocol has to remember until the answer.
struct AnswerOptions {
  std::string request_id;
  // A decoupled request that ends without one more response is answered with an empty one.
  bool empty_final_response = false;
  OutputPlan outputs;
};

// What the metadata of a call says of its requests.
struct RequestHeaders {
  const Parameters& forwarded;  // headers that become parameters
  std::string_view sequence;    // GrpcMetadataRules::SequenceHeader() of the servable
};

// -1 for an empty text. Errors: INVALID_ARGUMENT when `text` is not a number, or out of range, as the dialect
// words it.
Result<int64_t> ParseModelVersion(std::string_view text, const DialectRules& rules);

// What a tensor's parameters say of regions. Errors: INVALID_ARGUMENT for values of a wrong kind.
Result<RegionRequest> FindRegionRequest(const WireParameters& parameters);

// Fills `request` (all but model_version, sink, servable and cancellation) and `answer`; moves out of
// `parsed`. The bytes of all inputs are copied once, from the message or from `regions`, into memory of
// servable.input_allocator(): small tensors share one allocation, large ones have their own. Inputs that name
// the sequence of a stateful model become fields of the request. Errors: INVALID_ARGUMENT with the contract's
// texts, those of the allocator and of ClientRegions, and those of NameSequence().
Status BuildInferenceRequest(WireSegments segments, ParsedRequest& parsed, Servable& servable,
                             const RequestHeaders& headers, const ClientRegions& regions,
                             InferenceRequest& request, AnswerOptions& answer);

}  // namespace braid
