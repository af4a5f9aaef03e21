// The ovms_* metrics: what servables of Dialect::kOvms have done, under the names that OpenVINO Model Server
// gives them, for GET /metrics of its REST port.
//
//   BRAID_ASSIGN_OR_RETURN(MetricsCollector collect, OvmsMetrics(catalog, config.list));
//   servable->statistics().Configure(OvmsLatencyOptions());   // each servable, before its first request
//   ... OvmsMetricsText(collect) ...
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "protocols/metrics/collectors.h"
#include "serving/latency.h"

namespace braid {

// Collects the families named in `list`; of an empty list, the default ones: all but
// ovms_infer_req_queue_size, ovms_infer_req_active and those that begin with ovms_graph_. Each servable has
// the families of its kind. May be called by any thread. `catalog` outlives the collector. Errors:
// INVALID_ARGUMENT "Invalid name in metrics_list - x".
Result<MetricsCollector> OvmsMetrics(const Catalog& catalog, const std::vector<std::string>& list);

// What the statistics of a servable have to keep for its histograms: 33 buckets from 10 us on, each bound 1.8
// times the one before.
LatencyOptions OvmsLatencyOptions();

// The body of GET /metrics, which is text/plain.
std::string OvmsMetricsText(const MetricsCollector& collect);

}  // namespace braid
