#include "server/observability.h"

#include <utility>

#include "protocols/metrics/ovms_collectors.h"

namespace braid {

Status Observability::OpenTraces() {
  BRAID_ASSIGN_OR_RETURN(tracer, TraceManager::Create(options.trace, BRAID_VERSION, log));
  return OkStatus();
}

void Observability::Collect(const Sources& sources) {
  collectors = {ModelMetrics(sources.catalog, {options.counter_latencies}),
                PinnedMemoryMetrics(sources.client_gpus),
                UserMetrics(custom_metrics),
                LimitMetrics(sources.limits),
                StartMetrics(),
                ThreadMetrics(thread_watch),
                WorkerMetrics(sources.catalog, sources.own_workers, worker_counters, process_memory)};
  if (sources.access != nullptr) collectors.push_back(AccessMetrics(*sources.access));
  if (const OnDemandLoader* loader = sources.catalog.on_demand_loader())
    collectors.push_back(OnDemandMetrics(*loader));
  if (options.allow_cpu_metrics) collectors.push_back(CpuMetrics(options.metrics_interval_ms));
  if (options.allow_gpu_metrics && !sources.gpus.empty()) {
    collectors.push_back(GpuMetrics(sources.gpus, sources.nvml, options.metrics_interval_ms));
    collectors.push_back(GpuStallMetrics(sources.gpus, sources.client_gpus));
  }
  metrics.Enable([this] {
    MetricFamilies families;
    for (const MetricsCollector& collect : collectors) collect(families);
    return MetricsText(families);
  });
}

Status Observability::CollectOvms(const Catalog& catalog, const std::vector<std::string>& list) {
  BRAID_ASSIGN_OR_RETURN(MetricsCollector collect, OvmsMetrics(catalog, list));
  ovms_metrics.Enable([collect = std::move(collect)] { return OvmsMetricsText(collect); });
  return OkStatus();
}

}  // namespace braid
