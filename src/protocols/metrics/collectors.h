// Collectors of metrics. Each scrape calls every collector, which appends families. Nothing is kept between
// scrapes, so a model's series disappear with the model.
#pragma once

#include <prometheus/metric_family.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/process_memory.h"
#include "base/thread_watch.h"
#include "gpu/client_gpus.h"
#include "gpu/devices.h"
#include "gpu/nvml.h"
#include "protocols/access/access_control.h"
#include "protocols/net/client_limits.h"
#include "serving/catalog.h"
#include "serving/custom_metrics.h"
#include "serving/latency.h"
#include "serving/worker_counters.h"

namespace braid {

using MetricFamilies = std::vector<prometheus::MetricFamily>;

// Called by one thread at a time; must not block for long. Families of one name must come from one collector.
using MetricsCollector = std::function<void(MetricFamilies& families)>;

// Adds a counter or a gauge, according to the family's type.
void AddSample(prometheus::MetricFamily& family, std::vector<prometheus::ClientMetric::Label> labels,
               double value);

// nv_inference_* of every ready model, and nv_cache_* of models that have used a response cache. Labels:
// model, version and the model's own tags, in alphabetical order. `catalog` outlives the collector.
//
// Adds histograms and summaries of models whose statistics have them, and braid_node_* of models with a
// structure, with the label `node`.
struct ModelMetricsOptions {
  bool counter_latencies = true;  // nv_inference_*_duration_us
};
MetricsCollector ModelMetrics(const Catalog& catalog, const ModelMetricsOptions& options = {});

// process_start_time_seconds, since 1970: the time when the collector was created.
MetricsCollector StartMetrics();

// nv_cpu_utilization (of the machine, 0 to 1, since the previous scrape) and
// nv_cpu_memory_{total,used}_bytes, from /proc. Values younger than `interval_ms` are reused.
MetricsCollector CpuMetrics(int64_t interval_ms = 0);

// nv_gpu_utilization (0 to 1), nv_gpu_memory_{total,used}_bytes, nv_gpu_power_usage, nv_gpu_power_limit
// (watts) and nv_energy_consumption (joules since the collector was created), where a device reports them.
// Label: gpu_uuid. `interval_ms` is as for CpuMetrics(); `nvml` outlives the collector.
MetricsCollector GpuMetrics(const std::vector<GpuDevice>& gpus, Nvml& nvml, int64_t interval_ms = 0);

// braid_gpu_stalls_total: timeouts of a device (--gpu-timeout-ms). Label: gpu_uuid. `memory` outlives the
// collector.
MetricsCollector GpuStallMetrics(const std::vector<GpuDevice>& gpus, const ClientGpus& memory);

// nv_pinned_memory_pool_{total,used}_bytes of the server's own process; 0 without a GPU.
MetricsCollector PinnedMemoryMetrics(const ClientGpus& memory);

// Metrics of user code. `metrics` outlives the collector.
MetricsCollector UserMetrics(const CustomMetrics& metrics);

// braid_connections: open connections. braid_memory_used_bytes and braid_memory_max_bytes: memory held for
// clients, and its limit. braid_overload_refused_total: refusals, by `limit` (LimitName()).
// braid_overload_held_back_total: large requests that waited in their sockets. `limits` outlives the
// collector.
MetricsCollector LimitMetrics(const ClientLimits& limits);

// braid_access_refused_total: requests whose sender lacked the right, by `reason` (unauthenticated,
// permission_denied). `access` outlives the collector.
MetricsCollector AccessMetrics(const AccessControl& access);

// braid_worker_pss_bytes: memory of each worker process and template, with its proportion of shared pages.
// braid_worker_execute_timeouts_total and braid_worker_memory_replacements_total: see WorkerCounters. Labels:
// instance, model, version. `of_server` (any thread) returns workers without a model, which have only the
// first label. The other arguments outlive the collector.
MetricsCollector WorkerMetrics(const Catalog& catalog, std::function<std::vector<InstanceReport>()> of_server,
                               const WorkerCounters& counters, ProcessMemory& memory);

// braid_on_demand_loads_total: loads that requests have caused, by `result` (loaded, failed). The counts
// braid_on_demand_evictions_total (models unloaded for want of memory) and braid_on_demand_waiting_requests.
// The gauges braid_models_memory_bytes and braid_models_memory_max_bytes (the limit). `loader` outlives the
// collector.
MetricsCollector OnDemandMetrics(const OnDemandLoader& loader);

// braid_thread_stalls_total: stalls of the server's threads, by `thread`. `watch` outlives the collector.
MetricsCollector ThreadMetrics(const ThreadWatch& watch);

// Returns a cumulative histogram from counts by bucket.
prometheus::ClientMetric::Histogram HistogramOf(const LatencyHistogram& latency);

// Returns Prometheus' text format, with families and series in the given order.
std::string MetricsText(const MetricFamilies& families);

}  // namespace braid
