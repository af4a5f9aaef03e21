// From the body of POST .../infer to an InferenceRequest.
#pragma once

#include <simdjson.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "protocols/inference/client_regions.h"
#include "protocols/kserve/http/infer_response.h"
#include "protocols/kserve/http/sequence.h"
#include "serving/request.h"
#include "serving/servable.h"

namespace braid {

struct HttpInferRequest {
  // Inputs, parameters and outputs are set; identity, times and sink are the caller's.
  InferenceRequest& request;
  HttpOutputFormat format;
  // Where the bytes behind the JSON part go, in order: inside the buffers of `request` and of `sequence`.
  std::vector<std::span<std::byte>> destinations;
  // Set when the request's sequence is named by bytes that have not come yet; they are to be read before the
  // request runs.
  std::unique_ptr<HttpBinarySequence> sequence;
};

// What reading a request needs to know of the servable and the server.
struct HttpInferTarget {
  const ServableInfo& info;
  BufferAllocator& allocator;  // of the servable: tensors are written once, to where it reads them
  size_t max_input_bytes;      // of one input that is in the body
  ClientRegions regions = {};
  std::string_view sequence_header = {};  // HttpSequenceHeader() of the servable
};

// Reads the JSON part, behind which SIMDJSON_PADDING bytes can be read and which `binary_bytes` bytes follow.
// `has_binary_header`: whether the request told the length of its JSON part. Inputs that name the sequence of
// a stateful model become fields of the request. Errors: texts of the contract, and those of NameSequence().
Status ReadInferRequest(std::string_view json, size_t binary_bytes, bool has_binary_header,
                        const HttpInferTarget& target, simdjson::dom::parser& parser, HttpInferRequest& read);

// A body without a JSON part is the data of the model's only input; its shape is deduced.
Status ReadRawInferRequest(size_t bytes, const HttpInferTarget& target, HttpInferRequest& read);

}  // namespace braid
