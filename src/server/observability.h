// Observability: a server's monitoring, with counters, metrics, traces, and the last lines of its log.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/process_memory.h"
#include "base/recent_log.h"
#include "base/status.h"
#include "base/thread_watch.h"
#include "gpu/client_gpus.h"
#include "gpu/devices.h"
#include "gpu/nvml.h"
#include "protocols/access/access_control.h"
#include "protocols/grpc/protobuf_log.h"
#include "protocols/metrics/collectors.h"
#include "protocols/metrics/metrics_route.h"
#include "protocols/net/client_limits.h"
#include "server/options.h"
#include "serving/catalog.h"
#include "serving/custom_metrics.h"
#include "serving/worker_counters.h"
#include "tracing/trace_manager.h"

namespace braid {

struct Observability {
  Observability(const ServerOptions& options, Logger& log, const RecentLog* recent_log)
      : options(options), log(log), recent_log(recent_log) {}

  // Further sources of metrics. They outlive the last answer of a port.
  struct Sources {
    const Catalog& catalog;
    const ClientLimits& limits;
    const ClientGpus& client_gpus;
    const AccessControl* access;  // null: there are no users
    const std::vector<GpuDevice>& gpus;
    Nvml& nvml;
    std::function<std::vector<InstanceReport>()> own_workers;  // workers without a model
  };

  // Opens the outputs of traces. Errors: unusable files or collectors.
  Status OpenTraces();
  // Enables `metrics`.
  void Collect(const Sources& sources);
  // Enables `ovms_metrics`. Errors: an unknown name in `list`.
  Status CollectOvms(const Catalog& catalog, const std::vector<std::string>& list);

  const ServerOptions& options;
  Logger& log;
  const RecentLog* const recent_log;  // null: no lines are kept
  const ProtobufLogRoute protobuf_log{log};
  ThreadWatch thread_watch{log};
  ProcessMemory process_memory;
  WorkerCounters worker_counters;
  CustomMetrics custom_metrics;
  std::unique_ptr<TraceManager> tracer;
  std::vector<MetricsCollector> collectors;
  MetricsRoute metrics;
  MetricsRoute ovms_metrics;  // OpenVINO Model Server's, at the HTTP port
};

}  // namespace braid
