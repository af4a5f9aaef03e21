// From an InferenceResponse to the body of the answer to POST ...:predict.
#pragma once

#include <span>
#include <string>

#include "base/status.h"
#include "protocols/tfs/rest_predict_request.h"
#include "serving/request.h"

namespace braid {

// Rows: {"predictions": [...]}, one item for each index of the outputs' first dimension. Columns: {"outputs":
// ...}. A servable with one output has its values there; with several, objects by their names. Numbers read
// back as the same values; strings that are not UTF-8 are written as {"b64": "..."}.
// `stateful`: the answer is a stateful servable's. Its output sequence_id is one number for all rows, which
// belong to one sequence, so each row has it.
// REQUIRES: response.status.ok()
// Errors: INTERNAL for rows of outputs whose first dimensions differ, and for outputs that are not what they
// say.
Result<std::string> WriteRestPredictResponse(const InferenceResponse& response, TfsFormat format,
                                             bool stateful);

}  // namespace braid
