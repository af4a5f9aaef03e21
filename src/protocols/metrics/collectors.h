// Where metrics come from. A collector is asked at every scrape and appends families; nothing is kept in
// between, so a model's series vanish with it.
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

// Called by one thread at a time; must not block for long. Families of one name come from one collector.
using MetricsCollector = std::function<void(MetricFamilies& families)>;

// Adds a counter or a gauge, as the family is one.
void AddSample(prometheus::MetricFamily& family, std::vector<prometheus::ClientMetric::Label> labels,
               double value);

// nv_inference_*: what every ready model has done, and nv_cache_* of models that have used a response cache.
// Labels: model, version, and the model's own tags, in alphabetical order. `catalog` outlives the collector.
//
// Beside counters of time there are histograms and summaries of the models whose statistics keep them, and
// braid_node_* of those that have a structure, with the label `node`.
struct ModelMetricsOptions {
  bool counter_latencies = true;  // nv_inference_*_duration_us
};
MetricsCollector ModelMetrics(const Catalog& catalog, const ModelMetricsOptions& options = {});

// process_start_time_seconds, since 1970: when the collector was made.
MetricsCollector StartMetrics();

// nv_cpu_utilization (of the machine, 0 to 1, since the scrape before) and nv_cpu_memory_{total,used}_bytes,
// from /proc. What is less than `interval_ms` old is not looked at again.
MetricsCollector CpuMetrics(int64_t interval_ms = 0);

// nv_gpu_utilization (0 to 1), nv_gpu_memory_{total,used}_bytes, nv_gpu_power_usage, nv_gpu_power_limit (watts) and
// nv_energy_consumption (joules since the collector was made), of each device that tells it. Label: gpu_uuid. As
// CpuMetrics() for `interval_ms`; `nvml` outlives the collector.
MetricsCollector GpuMetrics(const std::vector<GpuDevice>& gpus, Nvml& nvml, int64_t interval_ms = 0);

// braid_gpu_stalls_total: how often a device has not answered in time (--gpu-timeout-ms). Label: gpu_uuid. `memory` outlives
// the collector.
MetricsCollector GpuStallMetrics(const std::vector<GpuDevice>& gpus, const ClientGpus& memory);

// nv_pinned_memory_pool_{total,used}_bytes, of the server's own process; 0 without a GPU.
MetricsCollector PinnedMemoryMetrics(const ClientGpus& memory);

// What user code counts. `metrics` outlives the collector.
MetricsCollector UserMetrics(const CustomMetrics& metrics);

// braid_connections: how many are open. braid_memory_used_bytes, braid_memory_max_bytes: what is held for
// clients, and may be. braid_overload_refused_total: what a limit has refused, by `limit` (LimitName()).
// braid_overload_held_back_total: large requests that waited in their sockets. `limits` outlives the
// collector.
MetricsCollector LimitMetrics(const ClientLimits& limits);

// braid_access_refused_total: requests of senders without the right to them, by `reason` (unauthenticated,
// permission_denied). `access` outlives the collector.
MetricsCollector AccessMetrics(const AccessControl& access);

// braid_worker_pss_bytes: the memory of each worker's process, with its share of what it shares.
// braid_worker_execute_timeouts_total, braid_worker_memory_replacements_total: see WorkerCounters. Labels: instance,
// model, version; those that `of_server` tells of (any thread) belong to no model and have the first alone. The other arguments
// outlive the collector.
MetricsCollector WorkerMetrics(const Catalog& catalog, std::function<std::vector<InstanceReport>()> of_server,
                               const WorkerCounters& counters, ProcessMemory& memory);

// braid_thread_stalls_total: how often a thread of the server has stood still, by `thread`. `watch` outlives the
// collector.
MetricsCollector ThreadMetrics(const ThreadWatch& watch);

// A cumulative histogram, its counts by bucket.
prometheus::ClientMetric::Histogram HistogramOf(const LatencyHistogram& latency);

// The text format of Prometheus, families and series in the order given.
std::string MetricsText(const MetricFamilies& families);

}  // namespace braid
