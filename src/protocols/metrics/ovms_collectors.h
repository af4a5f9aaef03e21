// The ovms_* metrics of servables of Dialect::kOvms, with the names of OpenVINO Model Server, for GET
// /metrics of its REST port.
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

// Returns a collector of the families in `list`. An empty list selects the default ones: all except
// ovms_infer_req_queue_size, ovms_infer_req_active and those that begin with ovms_graph_. Each servable has
// the families of its kind. Any thread may call the collector. `catalog` outlives it. Errors:
// INVALID_ARGUMENT "Invalid name in metrics_list - x".
Result<MetricsCollector> OvmsMetrics(const Catalog& catalog, const std::vector<std::string>& list);

// Returns the histograms for a servable's statistics: 33 buckets from 10 us on, each bound 1.8 times the
// previous.
LatencyOptions OvmsLatencyOptions();

// Returns the body of GET /metrics, which is text/plain.
std::string OvmsMetricsText(const MetricsCollector& collect);

}  // namespace braid
