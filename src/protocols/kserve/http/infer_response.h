// From an InferenceResponse to the HTTP answer to POST .../infer.
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
  bool binary_default = false;                             // for outputs of which nothing was said
  const DialectRules* rules = &RulesOf(Dialect::kTriton);  // of the servable
  OutputPlan plan;

  bool IsBinary(std::string_view output) const {
    const OutputRequest* asked = plan.Find(output);
    return asked != nullptr ? asked->binary : binary_default;
  }
};

// Bytes of outputs that would be written as JSON: a measure of how long WriteInferResponse takes.
size_t JsonOutputBytes(const InferenceResponse& response, const HttpOutputFormat& format);

// Binary outputs keep their memory and are not copied. REQUIRES: response.status is OK, and the plan was
// applied. Errors: those of AppendTensorValues() as the dialect words them.
Result<HttpResponse> WriteInferResponse(std::string_view id, InferenceResponse response,
                                        const HttpOutputFormat& format);

}  // namespace braid
