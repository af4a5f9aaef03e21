// Reads an HTTP infer request into its own InferenceRequest, for tests.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "protocols/kserve/http/infer_request.h"

namespace braid {

struct OwnInferRequest {
  std::unique_ptr<InferenceRequest> request = std::make_unique<InferenceRequest>();
  HttpOutputFormat format = {};
  std::vector<std::span<std::byte>> destinations = {};
};

// `read` fills an HttpInferRequest.
template <class Read>
Result<OwnInferRequest> ReadOwn(Read read) {
  OwnInferRequest own;
  HttpInferRequest out{*own.request, {}, {}, {}};
  BRAID_RETURN_IF_ERROR(read(out));
  own.format = std::move(out.format);
  own.destinations = std::move(out.destinations);
  return own;
}

}  // namespace braid
