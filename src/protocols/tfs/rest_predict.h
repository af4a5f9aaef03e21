// TfsRestPredictCall: one POST ...:predict, from its headers to its answer.
#pragma once

#include "protocols/inference/http_inference.h"
#include "protocols/tfs/rest_predict_request.h"

namespace braid {

class TfsRestPredictCall final : public HttpInference {
 public:
  explicit TfsRestPredictCall(Setup setup) : HttpInference(std::move(setup)) {}

 private:
  Status Read(std::string_view front, size_t rest, std::vector<std::span<std::byte>>& destinations,
              simdjson::dom::parser& parser, InferenceRequest& request) override;
  bool IsSlow(const InferenceResponse& response) const override;
  Result<HttpResponse> Write(InferenceResponse response) override;

  TfsFormat format_ = TfsFormat::kColumn;
  bool stateful_ = false;
};

}  // namespace braid
