// Writes the HTTP answer to POST .../infer from an InferenceResponse.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "protocols/http/message.h"
#include "protocols/inference/dialect.h"
#include "protocols/inference/output_plan.h"
#include "serving/request.h"
#include "serving/servable.h"

namespace braid {

struct HttpOutputFormat {
  bool binary_default = false;                             // for outputs that the request does not mention
  const DialectRules* rules = &RulesOf(Dialect::kTriton);  // of the servable
  OutputPlan plan;

  bool IsBinary(std::string_view output) const {
    const OutputRequest* asked = plan.Find(output);
    return asked != nullptr ? asked->binary : binary_default;
  }
};

// Returns the bytes of outputs that become JSON, as a measure of the time of WriteInferResponse().
size_t JsonOutputBytes(const InferenceResponse& response, const HttpOutputFormat& format);

// Writes the answer; binary outputs are not copied. Errors: those of AppendTensorValues(), in the dialect's
// words. REQUIRES: response.status is OK, and the plan was applied.
Result<HttpResponse> WriteInferResponse(std::string_view id, InferenceResponse response,
                                        const HttpOutputFormat& format);

}  // namespace braid
