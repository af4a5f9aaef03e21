#include "protocols/metrics/collectors.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <sstream>
#include <string>

#include "base/clock.h"
#include "base/utf8.h"
#include "protocols/metrics/sequence_metrics.h"
#include "serving/latency.h"

namespace braid {
namespace {

// Time that a scrape waits for the first measurement of new processes.
constexpr int64_t kFirstLookNs = 100'000'000;

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

MetricFamily Family(std::string name, std::string help, MetricType type) {
  MetricFamily family;
  family.name = std::move(name);
  family.help = std::move(help);
  family.type = type;
  return family;
}

double Microseconds(const DurationStatistic& duration) {
  return WholeMicroseconds(static_cast<int64_t>(duration.ns));
}

std::vector<ClientMetric::Label> Labels(const ServableInfo& info, std::string_view reason = "") {
  // A tag cannot replace a label of the server.
  std::map<std::string, std::string> labels = {{"model", info.name},
                                               {"version", std::to_string(info.version)}};
  if (!reason.empty()) labels.emplace("reason", reason);
  for (const auto& [name, value] : info.metric_tags) labels.emplace(name, value);
  std::vector<ClientMetric::Label> sorted;
  for (auto& [name, value] : labels) sorted.push_back({name, value});
  return sorted;
}

struct Model {
  std::shared_ptr<Servable> servable;
  StatisticsSnapshot statistics;
  std::vector<ClientMetric::Label> labels;
};

// Adds a family with one counter for each model.
template <class Value>
void AddCounters(MetricFamilies& families, const std::vector<Model>& models, std::string name,
                 std::string help, Value value) {
  MetricFamily family = Family(std::move(name), std::move(help), MetricType::Counter);
  for (const Model& model : models) {
    AddSample(family, model.labels, value(model.statistics));
  }
  families.push_back(std::move(family));
}

void AddGauge(MetricFamilies& families, std::string name, std::string help, double value) {
  MetricFamily family = Family(std::move(name), std::move(help), MetricType::Gauge);
  AddSample(family, {}, value);
  families.push_back(std::move(family));
}

// Adds families of the models with sequences, if any.
void AddSequences(MetricFamilies& families, const std::vector<Model>& models) {
  for (const SequenceMetric& counted : kSequenceMetrics) {
    MetricFamily family = Family(std::string(counted.name), std::string(counted.help), counted.type);
    for (const Model& model : models) {
      SequenceKeeper* sequences = model.servable->sequences();
      const auto count = sequences == nullptr ? std::nullopt : counted.count(*sequences);
      if (!count) continue;
      AddSample(family, model.labels, static_cast<double>(*count));
    }
    if (!family.metric.empty()) families.push_back(std::move(family));
  }
}

// Adds families of the nodes of ensembles, pipelines and graphs, if any.
void AddNodes(MetricFamilies& families, const std::vector<Model>& models) {
  struct Part {
    const char* name;
    const char* help;
    uint64_t StructureNode::*count;
    double scale;
  };
  static constexpr Part kParts[] = {
      {"braid_node_started", "Node executions that started", &StructureNode::started, 1},
      {"braid_node_ended", "Node executions that ended", &StructureNode::ended, 1},
      {"braid_node_failed", "Node executions that ended with an error", &StructureNode::failed, 1},
      {"braid_node_duration_us", "Cumulative duration of ended node executions, in microseconds",
       &StructureNode::total_ns, 1e-3},
  };
  std::vector<std::pair<std::vector<ClientMetric::Label>, StructureNode>> nodes;
  for (const Model& model : models) {
    auto structure = model.servable->structure();
    if (!structure) continue;
    for (StructureNode& node : structure->nodes) {
      // These are counted as the servable's own requests.
      if (node.kind == StructureNodeKind::kRequest || node.kind == StructureNodeKind::kResponse) continue;
      auto& [labels, kept] = nodes.emplace_back(model.labels, std::move(node));
      std::erase_if(labels, [](const ClientMetric::Label& label) { return label.name == "node"; });
      const ClientMetric::Label label{"node", kept.name};
      labels.insert(std::upper_bound(labels.begin(), labels.end(), label), label);
    }
  }
  if (nodes.empty()) return;
  for (const Part& part : kParts) {
    MetricFamily family = Family(part.name, part.help, MetricType::Counter);
    for (const auto& [labels, node] : nodes) {
      AddSample(family, labels, std::floor(static_cast<double>(node.*part.count) * part.scale));
    }
    families.push_back(std::move(family));
  }
}

void AddHistograms(MetricFamilies& families, const std::vector<Model>& models) {
  struct Histogram {
    const char* name;
    const char* help;
    LatencyHistogram StatisticsSnapshot::*values;
  };
  static constexpr Histogram kHistograms[] = {
      {"nv_inference_first_response_histogram_ms", "Duration from request to first response in milliseconds",
       &StatisticsSnapshot::first_response_ms},
      {"braid_openai_time_to_first_token_seconds",
       "Duration from a request of OpenAI's API to the first piece of its reply in seconds",
       &StatisticsSnapshot::first_token_s},
      {"braid_openai_inter_token_seconds",
       "Duration between two pieces of a reply of OpenAI's API in seconds",
       &StatisticsSnapshot::next_token_s},
  };
  for (const Histogram& histogram : kHistograms) {
    MetricFamily family = Family(histogram.name, histogram.help, MetricType::Histogram);
    for (const Model& model : models) {
      const LatencyHistogram& values = model.statistics.*histogram.values;
      if (values.counts.empty()) continue;
      ClientMetric& metric = family.metric.emplace_back();
      metric.label = model.labels;
      metric.histogram = HistogramOf(values);
    }
    if (!family.metric.empty()) families.push_back(std::move(family));
  }
}

void AddSummaries(MetricFamilies& families, const std::vector<Model>& models) {
  struct Part {
    const char* name;
    const char* help;
    SummarySnapshot LatencySummariesSnapshot::*summary;
  };
  static constexpr Part kParts[] = {
      {"nv_inference_request_summary_us",
       "Summary of inference request duration in microseconds (includes cached requests)",
       &LatencySummariesSnapshot::request},
      {"nv_inference_queue_summary_us",
       "Summary of inference queuing duration in microseconds (includes cached requests)",
       &LatencySummariesSnapshot::queue},
      {"nv_inference_compute_input_summary_us",
       "Summary of compute input duration in microseconds (does not include cached requests)",
       &LatencySummariesSnapshot::compute_input},
      {"nv_inference_compute_infer_summary_us",
       "Summary of compute inference duration in microseconds (does not include cached requests)",
       &LatencySummariesSnapshot::compute_infer},
      {"nv_inference_compute_output_summary_us",
       "Summary of inference compute output duration in microseconds (does not include cached requests)",
       &LatencySummariesSnapshot::compute_output},
  };
  std::vector<std::pair<const Model*, LatencySummariesSnapshot>> kept;
  for (const Model& model : models) {
    if (auto summaries = model.servable->statistics().Summaries()) kept.emplace_back(&model, *summaries);
  }
  if (kept.empty()) return;
  for (const Part& part : kParts) {
    MetricFamily family = Family(part.name, part.help, MetricType::Summary);
    for (const auto& [model, summaries] : kept) {
      const SummarySnapshot& summary = summaries.*part.summary;
      ClientMetric& metric = family.metric.emplace_back();
      metric.label = model->labels;
      metric.summary.sample_count = summary.count;
      metric.summary.sample_sum = summary.sum;
      for (const auto& [quantile, value] : summary.quantiles) {
        metric.summary.quantile.push_back({quantile, value});
      }
    }
    families.push_back(std::move(family));
  }
}

void AddLatencyCounters(MetricFamilies& families, const std::vector<Model>& models) {
  using S = StatisticsSnapshot;
  AddCounters(families, models, "nv_inference_request_duration_us",
              "Cumulative inference request duration in microseconds (includes cached requests)",
              [](const S& s) { return Microseconds(s.success); });
  AddCounters(families, models, "nv_inference_queue_duration_us",
              "Cumulative inference queuing duration in microseconds (includes cached requests)",
              [](const S& s) { return Microseconds(s.queue); });
  AddCounters(families, models, "nv_inference_compute_input_duration_us",
              "Cumulative compute input duration in microseconds (does not include cached requests)",
              [](const S& s) { return Microseconds(s.compute_input); });
  AddCounters(families, models, "nv_inference_compute_infer_duration_us",
              "Cumulative compute inference duration in microseconds (does not include cached requests)",
              [](const S& s) { return Microseconds(s.compute_infer); });
  AddCounters(
      families, models, "nv_inference_compute_output_duration_us",
      "Cumulative inference compute output duration in microseconds (does not include cached requests)",
      [](const S& s) { return Microseconds(s.compute_output); });
}

void CollectModels(const Catalog& catalog, const ModelMetricsOptions& options, MetricFamilies& families) {
  std::vector<Model> models;
  for (auto& servable : catalog.All()) {
    Model model{servable, servable->statistics().Snapshot(), Labels(servable->info())};
    models.push_back(std::move(model));
  }
  using S = StatisticsSnapshot;
  AddCounters(families, models, "nv_inference_request_success",
              "Number of successful inference requests, all batch sizes",
              [](const S& s) { return static_cast<double>(s.success.count); });

  MetricFamily failures = Family("nv_inference_request_failure",
                                 "Number of failed inference requests, all batch sizes", MetricType::Counter);
  for (const Model& model : models) {
    for (FailureReason reason : {FailureReason::kBackend, FailureReason::kCanceled, FailureReason::kOther,
                                 FailureReason::kRejected}) {
      AddSample(failures, Labels(model.servable->info(), FailureReasonName(reason)),
                static_cast<double>(model.statistics.failures[static_cast<int>(reason)]));
    }
  }
  families.push_back(std::move(failures));

  AddCounters(families, models, "nv_inference_count",
              "Number of inferences performed (does not include cached requests)",
              [](const S& s) { return static_cast<double>(s.inference_count); });
  AddCounters(families, models, "nv_inference_exec_count",
              "Number of model executions performed (does not include cached requests)",
              [](const S& s) { return static_cast<double>(s.execution_count); });
  if (options.counter_latencies) AddLatencyCounters(families, models);
  AddSummaries(families, models);
  AddHistograms(families, models);
  AddSequences(families, models);
  AddNodes(families, models);

  MetricFamily pending =
      Family("nv_inference_pending_request_count",
             "Instantaneous number of pending requests awaiting execution per-model.", MetricType::Gauge);
  for (const Model& model : models) {
    AddSample(pending, model.labels, static_cast<double>(model.servable->pending_requests()));
  }
  families.push_back(std::move(pending));

  MetricFamily loads = Family("nv_model_load_duration_secs", "Model load time in seconds", MetricType::Gauge);
  for (const Model& model : models) {
    AddSample(loads, model.labels, WholeMicroseconds(model.statistics.load_ns) / 1e6);
  }
  families.push_back(std::move(loads));

  std::vector<Model> cached;
  for (const Model& model : models) {
    if (model.statistics.cache_hit.count + model.statistics.cache_miss.count > 0) cached.push_back(model);
  }
  if (cached.empty()) return;
  AddCounters(families, cached, "nv_cache_num_hits_per_model", "Number of cache hits per model",
              [](const S& s) { return static_cast<double>(s.cache_hit.count); });
  AddCounters(families, cached, "nv_cache_num_misses_per_model", "Number of cache misses per model",
              [](const S& s) { return static_cast<double>(s.cache_miss.count); });
  AddCounters(families, cached, "nv_cache_hit_duration_per_model",
              "Total cache hit duration per model, in microseconds",
              [](const S& s) { return Microseconds(s.cache_hit); });
  AddCounters(families, cached, "nv_cache_miss_duration_per_model",
              "Total cache miss duration per model, in microseconds",
              [](const S& s) { return Microseconds(s.cache_miss); });
}

MetricType TypeOf(MetricKind kind) {
  switch (kind) {
    case MetricKind::kCounter:
      return MetricType::Counter;
    case MetricKind::kGauge:
      return MetricType::Gauge;
    case MetricKind::kHistogram:
      return MetricType::Histogram;
  }
  return MetricType::Untyped;
}

// Returns a description as one HELP line. prometheus-cpp escapes only the values of labels, so a line end in
// a description could forge samples.
std::string HelpText(const std::string& description) {
  std::string text;
  for (const char c : ToUtf8(description)) {
    if (c == '\\' || c == '\n') text += '\\';
    text += c == '\n' ? 'n' : c;
  }
  return text;
}

MetricFamily UserFamily(const CustomFamilySnapshot& snapshot) {
  MetricFamily family = Family(snapshot.name, HelpText(snapshot.description), TypeOf(snapshot.kind));
  for (const CustomSeriesSnapshot& series : snapshot.series) {
    std::vector<ClientMetric::Label> labels;
    for (const auto& [name, value] : series.labels) labels.push_back({name, value});
    AddSample(family, std::move(labels), series.value);
    if (snapshot.kind != MetricKind::kHistogram) continue;
    ClientMetric::Histogram& histogram = family.metric.back().histogram;
    histogram.sample_sum = series.value;
    histogram.sample_count = series.count;
    for (size_t i = 0; i < series.bounds.size(); ++i) {
      histogram.bucket.push_back({series.cumulative[i], series.bounds[i]});
    }
    histogram.bucket.push_back({series.count, std::numeric_limits<double>::infinity()});
  }
  return family;
}

// Jiffies of all processors since boot.
struct CpuTimes {
  uint64_t idle = 0;
  uint64_t total = 0;
};

CpuTimes ReadCpuTimes() {
  std::ifstream file("/proc/stat");
  std::string name;
  CpuTimes times;
  file >> name;
  // user nice system idle iowait irq softirq steal; guest times are part of user's.
  for (int i = 0; i < 8; ++i) {
    uint64_t value = 0;
    if (!(file >> value)) break;
    times.total += value;
    if (i == 3 || i == 4) times.idle += value;
  }
  return times;
}

struct Memory {
  double total = 0;
  double used = 0;
};

Memory ReadMemory() {
  std::ifstream file("/proc/meminfo");
  std::string line;
  double total = 0;
  double available = 0;
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string name;
    double kilobytes = 0;
    fields >> name >> kilobytes;
    if (name == "MemTotal:") total = kilobytes * 1024;
    if (name == "MemAvailable:") available = kilobytes * 1024;
  }
  return {total, total - available};
}

}  // namespace

void AddSample(prometheus::MetricFamily& family, std::vector<ClientMetric::Label> labels, double value) {
  ClientMetric& metric = family.metric.emplace_back();
  metric.label = std::move(labels);
  (family.type == MetricType::Gauge ? metric.gauge.value : metric.counter.value) = value;
}

prometheus::ClientMetric::Histogram HistogramOf(const LatencyHistogram& latency) {
  prometheus::ClientMetric::Histogram histogram;
  histogram.sample_sum = latency.sum;
  for (size_t i = 0; i < latency.counts.size(); ++i) {
    histogram.sample_count += latency.counts[i];
    const double bound =
        i < latency.bounds.size() ? latency.bounds[i] : std::numeric_limits<double>::infinity();
    histogram.bucket.push_back({histogram.sample_count, bound});
  }
  return histogram;
}

MetricsCollector ModelMetrics(const Catalog& catalog, const ModelMetricsOptions& options) {
  return [&catalog, options](MetricFamilies& families) { CollectModels(catalog, options, families); };
}

MetricsCollector StartMetrics() {
  return [started_s = static_cast<double>(WallNowMs()) * 1e-3](MetricFamilies& families) {
    AddGauge(families, "process_start_time_seconds",
             "Start time of the server, in seconds since the Unix epoch", started_s);
  };
}

MetricsCollector CpuMetrics(int64_t interval_ms) {
  struct Look {
    CpuTimes times = ReadCpuTimes();
    Memory memory = ReadMemory();
    double utilization = 0;
    int64_t next_ns = 0;
  };
  return [interval_ms, last = Look()](MetricFamilies& families) mutable {
    if (const int64_t now_ns = SteadyNowNs(); now_ns >= last.next_ns) {
      const CpuTimes now = ReadCpuTimes();
      const auto total = static_cast<double>(now.total - last.times.total);
      const auto idle = static_cast<double>(now.idle - last.times.idle);
      last.utilization = total > 0 ? std::clamp(1 - idle / total, 0.0, 1.0) : 0;
      last.times = now;
      last.memory = ReadMemory();
      last.next_ns = now_ns + interval_ms * 1'000'000;
    }
    AddGauge(families, "nv_cpu_utilization", "CPU utilization rate [0.0 - 1.0]", last.utilization);
    const Memory& memory = last.memory;
    AddGauge(families, "nv_cpu_memory_total_bytes", "CPU total memory (RAM), in bytes", memory.total);
    AddGauge(families, "nv_cpu_memory_used_bytes", "CPU used memory (RAM), in bytes", memory.used);
  };
}

MetricsCollector GpuMetrics(const std::vector<GpuDevice>& gpus, Nvml& nvml, int64_t interval_ms) {
  struct Kind {
    const char* name;
    const char* help;
    MetricType type;
    // Returns nullopt if the device does not report it.
    std::optional<double> (*look)(Nvml& nvml, const std::string& uuid);
  };
  static constexpr auto kValue = [](Result<double> value) {
    return value.ok() ? std::optional(*value) : std::nullopt;
  };
  static constexpr Kind kKinds[] = {
      {"nv_gpu_utilization", "GPU utilization rate [0.0 - 1.0]", MetricType::Gauge,
       [](Nvml& nvml, const std::string& uuid) { return kValue(nvml.Utilization(uuid)); }},
      {"nv_gpu_memory_total_bytes", "GPU total memory, in bytes", MetricType::Gauge,
       [](Nvml& nvml, const std::string& uuid) {
         auto memory = nvml.Memory(uuid);
         return memory.ok() ? std::optional(static_cast<double>(memory->total_bytes)) : std::nullopt;
       }},
      {"nv_gpu_memory_used_bytes", "GPU used memory, in bytes", MetricType::Gauge,
       [](Nvml& nvml, const std::string& uuid) {
         auto memory = nvml.Memory(uuid);
         return memory.ok() ? std::optional(static_cast<double>(memory->used_bytes)) : std::nullopt;
       }},
      {"nv_gpu_power_usage", "GPU power usage in watts", MetricType::Gauge,
       [](Nvml& nvml, const std::string& uuid) { return kValue(nvml.PowerWatts(uuid)); }},
      {"nv_gpu_power_limit", "GPU power management limit in watts", MetricType::Gauge,
       [](Nvml& nvml, const std::string& uuid) { return kValue(nvml.PowerLimitWatts(uuid)); }},
      {"nv_energy_consumption", "GPU energy consumption in joules since the server started",
       MetricType::Counter,
       [](Nvml& nvml, const std::string& uuid) { return kValue(nvml.EnergyJoules(uuid)); }},
  };
  std::map<std::string, double> energy_before;
  for (const GpuDevice& gpu : gpus) {
    if (auto energy = nvml.EnergyJoules(gpu.uuid); energy.ok()) energy_before[gpu.uuid] = *energy;
  }
  return [gpus, &nvml, interval_ms, energy_before = std::move(energy_before), last = MetricFamilies(),
          next_ns = int64_t{0}](MetricFamilies& families) mutable {
    if (const int64_t now_ns = SteadyNowNs(); now_ns >= next_ns) {
      last.clear();
      for (const Kind& kind : kKinds) {
        MetricFamily family = Family(kind.name, kind.help, kind.type);
        for (const GpuDevice& gpu : gpus) {
          const std::optional<double> value = kind.look(nvml, gpu.uuid);
          if (!value) continue;
          const double before = kind.type == MetricType::Counter ? energy_before[gpu.uuid] : 0;
          AddSample(family, {{"gpu_uuid", gpu.uuid}}, *value - before);
        }
        if (!family.metric.empty()) last.push_back(std::move(family));
      }
      next_ns = now_ns + interval_ms * 1'000'000;
    }
    families.insert(families.end(), last.begin(), last.end());
  };
}

MetricsCollector GpuStallMetrics(const std::vector<GpuDevice>& gpus, const ClientGpus& memory) {
  std::map<int, std::string> uuids;
  for (const GpuDevice& gpu : gpus) uuids.emplace(gpu.id, gpu.uuid);
  return [uuids = std::move(uuids), &memory](MetricFamilies& families) {
    MetricFamily stalls =
        Family("braid_gpu_stalls_total", "Number of times a GPU did not answer in time", MetricType::Counter);
    for (const auto& [gpu, count] : memory.Stalls()) {
      AddSample(stalls, {{"gpu_uuid", uuids.at(gpu)}}, static_cast<double>(count));
    }
    families.push_back(std::move(stalls));
  };
}

MetricsCollector PinnedMemoryMetrics(const ClientGpus& memory) {
  return [&memory](MetricFamilies& families) {
    AddGauge(families, "nv_pinned_memory_pool_total_bytes", "Pinned memory pool total memory size, in bytes",
             memory.empty() ? 0 : static_cast<double>(memory.pinned().max_bytes()));
    AddGauge(families, "nv_pinned_memory_pool_used_bytes", "Pinned memory pool used memory size, in bytes",
             static_cast<double>(memory.pinned().used_bytes()));
  };
}

MetricsCollector LimitMetrics(const ClientLimits& limits) {
  return [&limits](MetricFamilies& families) {
    AddGauge(families, "braid_connections", "Open client connections",
             static_cast<double>(limits.connections->open()));
    AddGauge(families, "braid_memory_used_bytes",
             "Memory held for requests and responses of clients, in bytes", static_cast<double>(MemoryUse()));
    AddGauge(families, "braid_memory_max_bytes", "Limit of that memory (--memory-max-bytes), in bytes",
             static_cast<double>(limits.budget.most()));
    MetricFamily refused = Family("braid_overload_refused_total",
                                  "Refused connections, requests and calls, by the option that limits them",
                                  MetricType::Counter);
    for (size_t i = 0; i < kLimitCount; ++i) {
      const auto limit = static_cast<Limit>(i);
      AddSample(refused, {{"limit", std::string(LimitName(limit))}},
                static_cast<double>(limits.refusals.count(limit)));
    }
    families.push_back(std::move(refused));
    MetricFamily held =
        Family("braid_overload_held_back_total",
               "Large requests that waited in their sockets because memory was short", MetricType::Counter);
    AddSample(held, {}, static_cast<double>(limits.budget.waited()));
    families.push_back(std::move(held));
  };
}

MetricsCollector AccessMetrics(const AccessControl& access) {
  return [&access](MetricFamilies& families) {
    using Refusal = AccessControl::Refusal;
    MetricFamily refused =
        Family("braid_access_refused_total", "Requests refused by access control", MetricType::Counter);
    for (const auto& [reason, why] : {std::pair("unauthenticated", Refusal::kUnauthenticated),
                                      std::pair("permission_denied", Refusal::kPermissionDenied)}) {
      AddSample(refused, {{"reason", reason}}, static_cast<double>(access.refused(why)));
    }
    families.push_back(std::move(refused));
  };
}

MetricsCollector WorkerMetrics(const Catalog& catalog, std::function<std::vector<InstanceReport>()> of_server,
                               const WorkerCounters& counters, ProcessMemory& memory) {
  return [&, of_server = std::move(of_server)](MetricFamilies& families) {
    MetricFamily pss =
        Family("braid_worker_pss_bytes", "Memory of a worker process in bytes (proportional set size)",
               MetricType::Gauge);
    std::vector<pid_t> pids;
    for (const auto& servable : catalog.All()) {
      const ServableInfo& info = servable->info();
      std::vector<InstanceReport> reports = servable->instances();
      if (auto shared = servable->instance_template()) reports.push_back(*std::move(shared));
      for (const InstanceReport& report : reports) {
        if (report.pid == 0) continue;
        pids.push_back(report.pid);
        ClientMetric& metric = pss.metric.emplace_back();
        metric.label = {
            {"instance", report.name}, {"model", info.name}, {"version", std::to_string(info.version)}};
      }
    }
    for (const InstanceReport& report : of_server()) {
      if (report.pid == 0) continue;
      pids.push_back(report.pid);
      pss.metric.emplace_back().label = {{"instance", report.name}};
    }
    memory.Ask(pids, kFirstLookNs);
    // Workers of unknown memory, because it is unreadable or they have ended, have no series.
    MetricFamily known = pss;
    known.metric.clear();
    for (size_t i = 0; i < pids.size(); ++i) {
      const auto bytes = memory.ProportionalBytes(pids[i]);
      if (!bytes) continue;
      pss.metric[i].gauge.value = static_cast<double>(*bytes);
      known.metric.push_back(std::move(pss.metric[i]));
    }
    if (!known.metric.empty()) families.push_back(std::move(known));

    struct Counted {
      const char* name;
      const char* help;
      std::atomic<uint64_t> WorkerCounters::Row::*count;
    };
    static constexpr Counted kCounted[] = {
        {"braid_worker_execute_timeouts_total",
         "Number of execute() calls that exceeded --execute-timeout-ms",
         &WorkerCounters::Row::execute_timeouts},
        {"braid_worker_memory_replacements_total",
         "Number of worker processes replaced because of --worker-memory-max-bytes",
         &WorkerCounters::Row::memory_replacements},
    };
    const auto rows = counters.All();
    for (const Counted& counted : kCounted) {
      // During a reload two rows have the same name.
      std::map<std::array<std::string, 3>, uint64_t> sums;
      for (const auto& row : rows)
        sums[{row->names.instance, row->names.model, row->names.version}] += ((*row).*counted.count).load();
      MetricFamily family = Family(counted.name, counted.help, MetricType::Counter);
      for (const auto& [names, sum] : sums) {
        AddSample(family, {{"instance", names[0]}, {"model", names[1]}, {"version", names[2]}},
                  static_cast<double>(sum));
      }
      if (!family.metric.empty()) families.push_back(std::move(family));
    }
  };
}

MetricsCollector OnDemandMetrics(const OnDemandLoader& loader) {
  return [&loader](MetricFamilies& families) {
    const OnDemandCounts counts = loader.counts();
    MetricFamily loads = Family("braid_on_demand_loads_total",
                                "Number of model loads that requests have caused", MetricType::Counter);
    AddSample(loads, {{"result", "loaded"}}, static_cast<double>(counts.loaded));
    AddSample(loads, {{"result", "failed"}}, static_cast<double>(counts.failed));
    families.push_back(std::move(loads));
    MetricFamily evictions =
        Family("braid_on_demand_evictions_total",
               "Number of models unloaded to stay below --models-memory-max-bytes", MetricType::Counter);
    AddSample(evictions, {}, static_cast<double>(counts.evicted));
    families.push_back(std::move(evictions));
    AddGauge(families, "braid_on_demand_waiting_requests", "Requests that wait for their model to be loaded",
             static_cast<double>(counts.waiting));
    AddGauge(families, "braid_models_memory_bytes", "Memory of the loaded models of the repository, in bytes",
             static_cast<double>(counts.memory_bytes));
    AddGauge(families, "braid_models_memory_max_bytes",
             "Limit of that memory (--models-memory-max-bytes), in bytes; 0: none",
             static_cast<double>(counts.memory_limit_bytes));
  };
}

MetricsCollector ThreadMetrics(const ThreadWatch& watch) {
  return [&watch](MetricFamilies& families) {
    MetricFamily stalls =
        Family("braid_thread_stalls_total", "Number of times a server thread stalled for half a second",
               MetricType::Counter);
    for (const auto& [thread, count] : watch.Stalls()) {
      AddSample(stalls, {{"thread", thread}}, static_cast<double>(count));
    }
    families.push_back(std::move(stalls));
  };
}

MetricsCollector UserMetrics(const CustomMetrics& metrics) {
  return [&metrics](MetricFamilies& families) {
    for (const CustomFamilySnapshot& family : metrics.Snapshot()) families.push_back(UserFamily(family));
  };
}

std::string MetricsText(const MetricFamilies& families) {
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace braid
