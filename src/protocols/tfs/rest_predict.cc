#include "protocols/tfs/rest_predict.h"

#include "base/clock.h"
#include "protocols/inference/request_headers.h"
#include "protocols/tfs/rest_predict_response.h"

namespace braid {

Status TfsRestPredictCall::Read(std::string_view front, size_t, std::vector<std::span<std::byte>>&,
                                simdjson::dom::parser& parser, InferenceRequest& request) {
  request.start_ns = SteadyNowNs();
  const ServableInfo& info = servable().info();
  stateful_ = info.stateful.has_value();
  BRAID_ASSIGN_OR_RETURN(const auto sequence_header, SequenceHeader(info, exchange().head()));
  BRAID_ASSIGN_OR_RETURN(format_,
                         ReadRestPredictRequest(front, sequence_header, servable(), parser, request));
  return OkStatus();
}

bool TfsRestPredictCall::IsSlow(const InferenceResponse& response) const {
  size_t bytes = 0;
  for (const Tensor& output : response.outputs) bytes += output.data.size();
  return bytes > kMaxInlineJsonBytes;
}

Result<HttpResponse> TfsRestPredictCall::Write(InferenceResponse response) {
  BRAID_ASSIGN_OR_RETURN(std::string json, WriteRestPredictResponse(response, format_, stateful_));
  return JsonResponse(std::move(json));
}

}  // namespace braid
