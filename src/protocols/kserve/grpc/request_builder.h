// Builds an InferenceRequest from a parsed ModelInferRequest. Reads reserved parameters and the client's
// wishes for the response, and copies input bytes into the servable's memory.
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

// The part of the request that the protocol needs again for the response.
struct AnswerOptions {
  std::string request_id;
  // Whether a decoupled request that ends without a further response gets an empty one.
  bool empty_final_response = false;
  OutputPlan outputs;
};

// Values of the call's metadata for its requests.
struct RequestHeaders {
  const Parameters& forwarded;  // headers that become parameters
  std::string_view sequence;    // GrpcMetadataRules::SequenceHeader() of the servable
};

// Returns the version; -1 for an empty text. Errors: INVALID_ARGUMENT, in the dialect's words, if `text` is
// not a number or out of range.
Result<int64_t> ParseModelVersion(std::string_view text, const DialectRules& rules);

// Returns the shared memory region in a tensor's parameters. Errors: INVALID_ARGUMENT for values of a wrong
// kind.
Result<RegionRequest> FindRegionRequest(const WireParameters& parameters);

// Fills `request`, except model_version, sink, servable and cancellation, and `answer`; moves out of
// `parsed`. Copies the bytes of all inputs once, from the message or from `regions`, into memory of
// servable.input_allocator(). Small tensors share one allocation; each large one has its own. Inputs that
// name the sequence of a stateful model become fields of the request. Errors: INVALID_ARGUMENT with the
// contract's texts; those of the allocator, ClientRegions and NameSequence().
Status BuildInferenceRequest(WireSegments segments, ParsedRequest& parsed, Servable& servable,
                             const RequestHeaders& headers, const ClientRegions& regions,
                             InferenceRequest& request, AnswerOptions& answer);

}  // namespace braid
