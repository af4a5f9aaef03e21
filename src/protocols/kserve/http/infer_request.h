// Reads the body of POST .../infer into an InferenceRequest.
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
  // Its inputs, parameters and outputs are set here; the caller sets identity, times and sink.
  InferenceRequest& request;
  HttpOutputFormat format;
  // Destinations of the bytes after the JSON part, in order: inside the buffers of `request` and of
  // `sequence`.
  std::vector<std::span<std::byte>> destinations;
  // Set if bytes that have not arrived yet name the request's sequence. They must be read before the request
  // runs.
  std::unique_ptr<HttpBinarySequence> sequence;
};

// The servable and server data needed to read a request.
struct HttpInferTarget {
  const ServableInfo& info;
  BufferAllocator& allocator;  // of the servable: tensors are written once, into its memory
  size_t max_input_bytes;      // limit for each input in the body
  ClientRegions regions = {};
  std::string_view sequence_header = {};  // HttpSequenceHeader() of the servable
};

// Reads the JSON part of a body; `binary_bytes` bytes follow it. `has_binary_header`: whether the request
// gave the length of its JSON part. Inputs that name the sequence of a stateful model become fields of the
// request. Errors: texts of the contract, and those of NameSequence(). REQUIRES: SIMDJSON_PADDING bytes after
// `json` are readable.
Status ReadInferRequest(std::string_view json, size_t binary_bytes, bool has_binary_header,
                        const HttpInferTarget& target, simdjson::dom::parser& parser, HttpInferRequest& read);

// Reads a body without a JSON part: the data of the model's only input, whose shape is deduced.
Status ReadRawInferRequest(size_t bytes, const HttpInferTarget& target, HttpInferRequest& read);

}  // namespace braid
