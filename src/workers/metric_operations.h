// Operations of user code on custom metrics: the JSON texts of AskTopic::kMetric.
//
//   {"do": "family", "name": "f", "description": "d", "kind": 0}            answered by an id
//   {"do": "metric", "family": 1, "labels": {"a": "b"}, "buckets": [1, 2]}   answered by an id
//   {"do": "increment" | "set" | "observe", "metric": 2, "value": 1.5}
//   {"do": "value", "metric": 2}                                             answered by a number
//   {"do": "drop_family", "family": 1}, {"do": "drop_metric", "metric": 2}
//
// Numbers that JSON cannot express are strings: "inf", "-inf", "nan".
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "serving/custom_metrics.h"

namespace braid {

// Performs an operation and returns the text of the answer, "" if there is none. Errors: those of the
// session; INVALID_ARGUMENT for an unknown operation or malformed text.
Result<std::string> PerformMetricOperation(CustomMetrics::Session& session, std::string_view text);

}  // namespace braid
