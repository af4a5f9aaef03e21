// Writes the body of the answer to POST ...:predict from an InferenceResponse.
#pragma once

#include <span>
#include <string>

#include "base/status.h"
#include "protocols/tfs/rest_predict_request.h"
#include "serving/request.h"

namespace braid {

// Returns the body. Rows give {"predictions": [...]}, with one item for each index of the outputs' first
// dimension. Columns give {"outputs": ...}. The items are the values of a single output, or objects by name
// of several outputs. Numbers are written so that they read back unchanged, and strings that are not UTF-8 as
// {"b64": "..."}. `stateful`: a stateful servable answers. Its output sequence_id is one number for all rows,
// so each row contains it. Errors: INTERNAL for row format with different first dimensions, and for outputs
// that contradict their type or shape. REQUIRES: response.status.ok().
Result<std::string> WriteRestPredictResponse(const InferenceResponse& response, TfsFormat format,
                                             bool stateful);

}  // namespace braid
