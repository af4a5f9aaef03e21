// What user code asks about custom metrics: the JSON texts of AskTopic::kMetric.
//
//   {"do": "family", "name": "f", "description": "d", "kind": 0}            answered by an id
//   {"do": "metric", "family": 1, "labels": {"a": "b"}, "buckets": [1, 2]}   answered by an id
//   {"do": "increment" | "set" | "observe", "metric": 2, "value": 1.5}
//   {"do": "value", "metric": 2}                                             answered by a number
//   {"do": "drop_family", "family": 1}, {"do": "drop_metric", "metric": 2}
//
// Numbers that JSON cannot write are texts: "inf", "-inf", "nan".
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "serving/custom_metrics.h"

namespace braid {

// Carries one out and returns the answer's text, "" for those without one. Errors: those of the session, and
// INVALID_ARGUMENT for a text that is none of the above.
Result<std::string> PerformMetricOperation(CustomMetrics::Session& session, std::string_view text);

}  // namespace braid
