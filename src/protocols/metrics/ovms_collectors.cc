#include "protocols/metrics/ovms_collectors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>

#include "protocols/metrics/sequence_metrics.h"

namespace braid {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using LabelList = std::vector<ClientMetric::Label>;

struct ServedModel {
  std::shared_ptr<Servable> servable;
  StatisticsSnapshot statistics;

  const ServableInfo& info() const { return servable->info(); }
  bool is_graph() const { return info().kind == ServableKind::kGraph; }
  bool is_model() const {
    return info().kind == ServableKind::kModel || info().kind == ServableKind::kEnsemble;
  }
};

// Labels have alphabetical order in the text. Graphs have no versions.
LabelList With(LabelList labels, const ServableInfo& info) {
  labels.push_back({"name", info.name});
  if (info.kind != ServableKind::kGraph) labels.push_back({"version", std::to_string(info.version)});
  return labels;
}

std::string InterfaceName(ApiInterface interface) {
  return interface == ApiInterface::kGrpc ? "gRPC" : "REST";
}

std::string ProtocolName(ApiProtocol protocol) {
  return protocol == ApiProtocol::kKServe ? "KServe" : "TensorFlowServing";
}

std::string MethodName(ApiMethod method) {
  switch (method) {
    case ApiMethod::kModelInfer:
      return "ModelInfer";
    case ApiMethod::kModelInferStream:
      return "ModelInferStream";
    case ApiMethod::kModelMetadata:
      return "ModelMetadata";
    case ApiMethod::kModelReady:
      return "ModelReady";
    case ApiMethod::kPredict:
      return "Predict";
    case ApiMethod::kGetModelStatus:
      return "GetModelStatus";
    case ApiMethod::kGetModelMetadata:
      return "GetModelMetadata";
  }
  return "";
}

// Methods with their protocols; each is available over both interfaces.
constexpr std::pair<ApiProtocol, ApiMethod> kMethods[] = {
    {ApiProtocol::kKServe, ApiMethod::kModelInfer},
    {ApiProtocol::kKServe, ApiMethod::kModelMetadata},
    {ApiProtocol::kKServe, ApiMethod::kModelReady},
    {ApiProtocol::kTensorFlowServing, ApiMethod::kPredict},
    {ApiProtocol::kTensorFlowServing, ApiMethod::kGetModelStatus},
    {ApiProtocol::kTensorFlowServing, ApiMethod::kGetModelMetadata},
};
constexpr ApiInterface kInterfaces[] = {ApiInterface::kGrpc, ApiInterface::kRest};
constexpr ApiCall kStream = {ApiProtocol::kKServe, ApiInterface::kGrpc, ApiMethod::kModelInferStream};

void AddCount(MetricFamily& family, const ServableInfo& info, const ApiCall& call, uint64_t count) {
  AddSample(family,
            With({{"api", ProtocolName(call.protocol)},
                  {"interface", InterfaceName(call.interface)},
                  {"method", MethodName(call.method)}},
                 info),
            static_cast<double>(count));
}

// Adds one series for each API, even with no calls; streams only after the first call.
void AddCounts(MetricFamily& family, const ServedModel& model,
               uint64_t (ApiCounters::*count)(ApiCall) const) {
  const ApiCounters& counters = model.servable->api_counters();
  for (const auto& [protocol, method] : kMethods) {
    for (ApiInterface interface : kInterfaces) {
      const ApiCall call{protocol, interface, method};
      AddCount(family, model.info(), call, (counters.*count)(call));
    }
  }
  if (const uint64_t streamed = (counters.*count)(kStream); streamed > 0) {
    AddCount(family, model.info(), kStream, streamed);
  }
}

// The calls that graphs answer.
constexpr ApiCall kGraphCalls[] = {
    {ApiProtocol::kKServe, ApiInterface::kGrpc, ApiMethod::kModelInfer},
    {ApiProtocol::kKServe, ApiInterface::kRest, ApiMethod::kModelInfer},
    kStream,
};

void AddGraphCounts(MetricFamily& family, const ServedModel& model,
                    uint64_t (ApiCounters::*count)(ApiCall) const) {
  if (!model.is_graph()) return;
  for (const ApiCall& call : kGraphCalls) {
    AddCount(family, model.info(), call, (model.servable->api_counters().*count)(call));
  }
}

void AddGauge(MetricFamily& family, const ServedModel& model, double value) {
  AddSample(family, With({}, model.info()), value);
}

void AddHistogram(MetricFamily& family, LabelList labels, const LatencyHistogram& latency) {
  ClientMetric& metric = family.metric.emplace_back();
  metric.label = std::move(labels);
  metric.histogram = HistogramOf(latency);
}

void AddGraphHistograms(MetricFamily& family, const ServedModel& model,
                        const std::array<LatencyHistogram, 2>& histograms) {
  if (!model.is_graph() || !model.statistics.ovms_us.on()) return;
  for (ApiMethod method : {ApiMethod::kModelInfer, ApiMethod::kModelInferStream}) {
    AddHistogram(family, With({{"method", MethodName(method)}}, model.info()),
                 histograms[GraphCallIndex(method)]);
  }
}

// Returns the requests that run in the model or are returning from it.
double ActiveRequests(const ServedModel& model) {
  const auto inside = static_cast<int64_t>(model.servable->gate().inside());
  const int64_t active = inside - model.servable->pending_requests();
  return static_cast<double>(std::clamp<int64_t>(active, 0, model.info().instance_count));
}

struct Metric {
  std::string_view name;
  std::string_view help;
  MetricType type;
  bool by_default;
  void (*add)(MetricFamily& family, const ServedModel& model);
};

template <size_t kIndex>
void AddSequences(MetricFamily& family, const ServedModel& model) {
  SequenceKeeper* sequences = model.servable->sequences();
  const auto count = sequences == nullptr ? std::nullopt : kSequenceMetrics[kIndex].count(*sequences);
  if (!count) return;
  AddSample(family, With({}, model.info()), static_cast<double>(*count));
}

template <size_t kIndex>
constexpr Metric SequenceRow() {
  const SequenceMetric& metric = kSequenceMetrics[kIndex];
  return {metric.name, metric.help, metric.type, true, AddSequences<kIndex>};
}

constexpr Metric kMetrics[] = {
    {"ovms_streams", "Executions that the device runs in parallel.", MetricType::Gauge, true,
     [](MetricFamily& family, const ServedModel& model) {
       const ServableInfo& info = model.info();
       if (model.is_model()) {
         AddGauge(family, model, info.stream_count > 0 ? info.stream_count : info.instance_count);
       }
     }},
    {"ovms_current_requests", "Requests that are being processed.", MetricType::Gauge, true,
     [](MetricFamily& family, const ServedModel& model) {
       AddGauge(family, model, static_cast<double>(model.servable->gate().inside()));
     }},
    {"ovms_infer_req_queue_size", "Infer requests of the model, busy or idle.", MetricType::Gauge, false,
     [](MetricFamily& family, const ServedModel& model) {
       if (model.is_model()) AddGauge(family, model, model.info().instance_count);
     }},
    {"ovms_infer_req_active", "Infer requests of the model that are in use.", MetricType::Gauge, false,
     [](MetricFamily& family, const ServedModel& model) {
       if (model.is_model()) AddGauge(family, model, ActiveRequests(model));
     }},
    {"ovms_requests_success", "Calls that succeeded.", MetricType::Counter, true,
     [](MetricFamily& family, const ServedModel& model) { AddCounts(family, model, &ApiCounters::success); }},
    {"ovms_requests_fail", "Calls that failed.", MetricType::Counter, true,
     [](MetricFamily& family, const ServedModel& model) { AddCounts(family, model, &ApiCounters::fail); }},
    {"ovms_request_time_us", "Time of inference requests in the server, in microseconds.",
     MetricType::Histogram, true,
     [](MetricFamily& family, const ServedModel& model) {
       const OvmsHistograms& histograms = model.statistics.ovms_us;
       if (!histograms.on()) return;
       for (ApiInterface interface : kInterfaces) {
         AddHistogram(family, With({{"interface", InterfaceName(interface)}}, model.info()),
                      histograms.request[static_cast<size_t>(interface)]);
       }
     }},
    {"ovms_inference_time_us", "Time of inferences in the model, in microseconds.", MetricType::Histogram,
     true,
     [](MetricFamily& family, const ServedModel& model) {
       const OvmsHistograms& histograms = model.statistics.ovms_us;
       if (model.is_model() && histograms.on())
         AddHistogram(family, With({}, model.info()), histograms.inference);
     }},
    {"ovms_wait_for_infer_req_time_us", "Time that requests waited for an infer request, in microseconds.",
     MetricType::Histogram, true,
     [](MetricFamily& family, const ServedModel& model) {
       const OvmsHistograms& histograms = model.statistics.ovms_us;
       if (model.is_model() && histograms.on()) AddHistogram(family, With({}, model.info()), histograms.wait);
     }},
    {"ovms_current_graphs", "Runs of the graph in progress.", MetricType::Gauge, true,
     [](MetricFamily& family, const ServedModel& model) {
       if (model.is_graph()) {
         AddGauge(family, model, static_cast<double>(model.servable->api_counters().current_graphs()));
       }
     }},
    {"ovms_requests_accepted", "Requests accepted by a run of the graph.", MetricType::Counter, true,
     [](MetricFamily& family, const ServedModel& model) {
       AddGraphCounts(family, model, &ApiCounters::accepted);
     }},
    {"ovms_requests_rejected", "Requests not accepted by a run of the graph.", MetricType::Counter, true,
     [](MetricFamily& family, const ServedModel& model) {
       AddGraphCounts(family, model, &ApiCounters::rejected);
     }},
    {"ovms_responses", "Responses of the graph; a request can have any number of them.", MetricType::Counter,
     true,
     [](MetricFamily& family, const ServedModel& model) {
       AddGraphCounts(family, model, &ApiCounters::responses);
     }},
    {"ovms_graph_error", "Runs that ended with a graph error.", MetricType::Counter, false,
     [](MetricFamily& family, const ServedModel& model) {
       if (!model.is_graph()) return;
       AddSample(family, With({}, model.info()),
                 static_cast<double>(model.servable->api_counters().graph_errors()));
     }},
    {"ovms_graph_processing_time_us", "Time of runs of the graph, in microseconds.", MetricType::Histogram,
     false,
     [](MetricFamily& family, const ServedModel& model) {
       AddGraphHistograms(family, model, model.statistics.ovms_us.graph_processing);
     }},
    {"ovms_graph_request_latency_us", "Time to the first response to a call, in microseconds.",
     MetricType::Histogram, false,
     [](MetricFamily& family, const ServedModel& model) {
       AddGraphHistograms(family, model, model.statistics.ovms_us.graph_latency);
     }},
    SequenceRow<0>(),
    SequenceRow<1>(),
    SequenceRow<2>(),
    SequenceRow<3>(),
    SequenceRow<4>(),
    SequenceRow<5>(),
    SequenceRow<6>(),
    SequenceRow<7>(),
    SequenceRow<8>(),
    SequenceRow<9>(),
    SequenceRow<10>(),
    SequenceRow<11>(),
    SequenceRow<12>(),
};
static_assert(std::size(kSequenceMetrics) == 13);

void Collect(const Catalog& catalog, std::span<const Metric* const> metrics, MetricFamilies& families) {
  std::vector<ServedModel> models;
  for (auto& servable : catalog.All()) {
    if (servable->info().dialect != Dialect::kOvms) continue;
    models.push_back({servable, servable->statistics().Snapshot()});
  }
  for (const Metric* metric : metrics) {
    MetricFamily family;
    family.name = metric->name;
    family.help = metric->help;
    family.type = metric->type;
    for (const ServedModel& model : models) metric->add(family, model);
    if (!family.metric.empty()) families.push_back(std::move(family));
  }
}

}  // namespace

Result<MetricsCollector> OvmsMetrics(const Catalog& catalog, const std::vector<std::string>& list) {
  for (const std::string& name : list) {
    const bool known = std::any_of(std::begin(kMetrics), std::end(kMetrics),
                                   [&](const Metric& metric) { return metric.name == name; });
    if (!known) return InvalidArgumentError("Invalid name in metrics_list - " + name);
  }
  std::vector<const Metric*> wanted;
  for (const Metric& metric : kMetrics) {
    const bool named = std::find(list.begin(), list.end(), metric.name) != list.end();
    if (list.empty() ? metric.by_default : named) wanted.push_back(&metric);
  }
  return MetricsCollector([&catalog, wanted = std::move(wanted)](MetricFamilies& families) {
    Collect(catalog, wanted, families);
  });
}

LatencyOptions OvmsLatencyOptions() {
  constexpr size_t kBuckets = 33;
  LatencyOptions options;
  double bound = 10;
  for (size_t i = 0; i < kBuckets; ++i, bound *= 1.8) options.ovms_bounds_us.push_back(std::round(bound));
  return options;
}

std::string OvmsMetricsText(const MetricsCollector& collect) {
  MetricFamilies families;
  collect(families);
  return MetricsText(families);
}

}  // namespace braid
