#include "protocols/metrics/collectors.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "base/clock.h"
#include "base/temporary_folder.h"
#include "gpu/testing/standin_gpus.h"
#include "protocols/http/server.h"
#include "protocols/http/testing/test_client.h"
#include "protocols/metrics/metrics_route.h"
#include "serving/testing/fake_control.h"

namespace braid {
namespace {

class Counted final : public Servable {
 public:
  using Servable::Servable;
  BufferAllocator& input_allocator() override { return heap_; }
  void Infer(std::unique_ptr<InferenceRequest>) override {}
  Readiness readiness() const override { return {}; }
  int64_t pending_requests() const override { return 3; }
  void Stop(int64_t) override {}

 private:
  HeapAllocator heap_;
};

ServableInfo Info(std::string name) {
  ServableInfo info;
  info.name = std::move(name);
  info.metric_tags = {{"zone", "a\"b"}, {"area", "x"}, {"model", "cannot override"}};
  return info;
}

std::string Text(const MetricsCollector& collect) {
  MetricFamilies families;
  collect(families);
  return MetricsText(families);
}

TEST(ModelMetrics, HaveTheNamesAndLabelsOfTheContract) {
  Catalog catalog;
  auto model = std::make_shared<Counted>(Info("m"));
  catalog.Publish(model);
  const ExecutionTimes times{2'000'000, 3'000'000, 6'000'000, 10'000'000};
  model->statistics().RecordExecution(8, times);
  model->statistics().RecordSuccess(8, 0, 1'000'000, times);
  model->statistics().RecordFailure(FailureReason::kBackend, 0, 5);
  const std::string text = Text(ModelMetrics(catalog));
  const std::string labels = R"({area="x",model="m",version="1",zone="a\"b"} )";
  for (
      const std::string& line : {
          "nv_inference_request_success" + labels + "1\n",
          "nv_inference_count" + labels + "8\n",
          "nv_inference_exec_count" + labels + "1\n",
          "nv_inference_request_duration_us" + labels + "10000\n",
          "nv_inference_queue_duration_us" + labels + "1000\n",
          "nv_inference_compute_input_duration_us" + labels + "1000\n",
          "nv_inference_compute_infer_duration_us" + labels + "3000\n",
          "nv_inference_compute_output_duration_us" + labels + "4000\n",
          "nv_inference_pending_request_count" + labels + "3\n",
          std::string("# TYPE nv_inference_pending_request_count gauge\n"),
          std::string("# TYPE nv_inference_request_success counter\n"),
          std::string(
              R"(nv_inference_request_failure{area="x",model="m",reason="BACKEND",version="1",zone="a\"b"} 1)") +
              "\n",
          std::string(
              R"(nv_inference_request_failure{area="x",model="m",reason="CANCELED",version="1",zone="a\"b"} 0)") +
              "\n",
          std::string(
              R"(nv_inference_request_failure{area="x",model="m",reason="OTHER",version="1",zone="a\"b"} 0)") +
              "\n",
          std::string(
              R"(nv_inference_request_failure{area="x",model="m",reason="REJECTED",version="1",zone="a\"b"} 0)") +
              "\n",
      }) {
    EXPECT_NE(text.find("\n" + line), std::string::npos) << line << text;
  }
  EXPECT_EQ(text.find("nv_cache"), std::string::npos);
  EXPECT_EQ(text.find("summary"), std::string::npos);
  EXPECT_EQ(text.find("histogram"), std::string::npos);
  catalog.SetState("m", 1, VersionState::kUnavailable, "unloaded");
  EXPECT_EQ(Text(ModelMetrics(catalog)).find("model=\"m\""), std::string::npos);
}

class Structured final : public Servable {
 public:
  using Servable::Servable;
  BufferAllocator& input_allocator() override { return heap_; }
  void Infer(std::unique_ptr<InferenceRequest>) override {}
  Readiness readiness() const override { return {}; }
  void Stop(int64_t) override {}
  std::optional<ServableStructure> structure() const override {
    ServableStructure structure;
    structure.nodes.resize(3);
    structure.nodes[0].kind = StructureNodeKind::kRequest;
    structure.nodes[0].name = "request";
    StructureNode& node = structure.nodes[1];
    node.name = "classify \"it\"";
    node.started = 5;
    node.ended = 4;
    node.failed = 1;
    node.total_ns = 1'234'567;
    structure.nodes[2].kind = StructureNodeKind::kResponse;
    structure.nodes[2].name = "response";
    return structure;
  }

 private:
  HeapAllocator heap_;
};

TEST(ModelMetrics, OfNodesAreThereForServablesWithAStructure) {
  Catalog catalog;
  catalog.Publish(std::make_shared<Counted>(Info("m")));
  EXPECT_EQ(Text(ModelMetrics(catalog)).find("braid_node_"), std::string::npos);
  ServableInfo info = Info("p");
  info.metric_tags.emplace_back("node", "cannot override");
  catalog.Publish(std::make_shared<Structured>(std::move(info)));
  const std::string text = Text(ModelMetrics(catalog));
  const std::string labels = R"({area="x",model="p",node="classify \"it\"",version="1",zone="a\"b"} )";
  for (const std::string& line : {"# TYPE braid_node_started counter\nbraid_node_started" + labels + "5\n",
                                  "braid_node_ended" + labels + "4\n", "braid_node_failed" + labels + "1\n",
                                  "braid_node_duration_us" + labels + "1234\n"}) {
    EXPECT_NE(text.find("\n" + line), std::string::npos) << line << text;
  }
  EXPECT_EQ(text.find("node=\"request\""), std::string::npos);
}

TEST(ModelMetrics, HistogramsAndSummariesAreThereWhenAsked) {
  Catalog catalog;
  ServableInfo info = Info("m");
  info.metric_tags.clear();
  auto model = std::make_shared<Counted>(std::move(info));
  model->statistics().Configure({{100, 500.5}, {{0.5, 0.05}}});
  model->statistics().RecordLoad(1'500'000'000);
  catalog.Publish(model);
  model->statistics().RecordFirstResponse(50'000'000);
  model->statistics().RecordFirstResponse(600'000'000);
  model->statistics().RecordSuccess(1, 0, 1'000'000, {2'000'000, 3'000'000, 6'000'000, 10'000'000});
  const std::string text = Text(ModelMetrics(catalog, {.counter_latencies = false}));
  const std::string name = "nv_inference_first_response_histogram_ms";
  for (const std::string& line : {
           "# TYPE " + name + " histogram\n",
           name + "_count{model=\"m\",version=\"1\"} 2\n",
           name + "_sum{model=\"m\",version=\"1\"} 650\n",
           name + "_bucket{model=\"m\",version=\"1\",le=\"100\"} 1\n",
           name + "_bucket{model=\"m\",version=\"1\",le=\"500.5\"} 1\n",
           name + "_bucket{model=\"m\",version=\"1\",le=\"+Inf\"} 2\n",
           std::string("# TYPE nv_inference_request_summary_us summary\n"),
           std::string("nv_inference_request_summary_us_count{model=\"m\",version=\"1\"} 1\n"),
           std::string("nv_inference_request_summary_us_sum{model=\"m\",version=\"1\"} 10000\n"),
           std::string("nv_inference_queue_summary_us{model=\"m\",version=\"1\",quantile=\"0.5\"} 1000\n"),
           std::string("nv_model_load_duration_secs{model=\"m\",version=\"1\"} 1.5\n"),
       }) {
    EXPECT_NE(text.find("\n" + line), std::string::npos) << line << text;
  }
  EXPECT_EQ(text.find("_duration_us"), std::string::npos);
}

TEST(ModelMetrics, TheOnlyResponseOfARequestIsTheFirst) {
  Catalog catalog;
  ServableInfo info = Info("m");
  info.metric_tags.clear();
  auto model = std::make_shared<Counted>(std::move(info));
  model->statistics().Configure({.first_response_bounds_ms = {100}, .quantiles = {}, .one_response = true});
  catalog.Publish(model);
  model->statistics().RecordSuccess(1, 0, 0, {0, 0, 0, 50'000'000});
  model->statistics().RecordFailure(FailureReason::kBackend, 0, 200'000'000);
  model->statistics().RecordCacheHit(0, 1'000'000, 0);
  const std::string text = Text(ModelMetrics(catalog));
  const std::string name = "nv_inference_first_response_histogram_ms";
  EXPECT_NE(text.find(name + "_sum{model=\"m\",version=\"1\"} 251\n"), std::string::npos) << text;
  EXPECT_NE(text.find(name + "_bucket{model=\"m\",version=\"1\",le=\"100\"} 2\n"), std::string::npos) << text;
}

TEST(ModelMetrics, WriteLargeCountsInFull) {
  Catalog catalog;
  auto model = std::make_shared<Counted>(Info("m"));
  catalog.Publish(model);
  const ExecutionTimes times{0, 0, 0, 123'456'789'012'345'000};
  model->statistics().RecordSuccess(1, 0, 0, times);
  EXPECT_NE(Text(ModelMetrics(catalog)).find("} 123456789012345\n"), std::string::npos);
}

// Descriptions and labels cannot forge samples.
TEST(UserMetrics, HostileTextsStayInTheirPlaces) {
  CustomMetrics metrics;
  auto session = metrics.Open();
  const uint64_t family =
      session->CreateFamily("f", "a\nforged{x=\"y\"} 7\r\\n\xff<script>${}%00\x1b", MetricKind::kGauge)
          .value();
  ASSERT_TRUE(session->CreateMetric(family, {{"a", "\"} 7\nforged 7\r\\<script>\x1b"}}, std::nullopt).ok());
  EXPECT_EQ(Text(UserMetrics(metrics)),
            "# HELP f a\\nforged{x=\"y\"} 7\r\\\\n\xef\xbf\xbd<script>${}%00\x1b\n"
            "# TYPE f gauge\n"
            "f{a=\"\\\"} 7\\nforged 7\r\\\\<script>\x1b\"} 0\n");
}

TEST(UserMetrics, AreWrittenToTheLetter) {
  CustomMetrics metrics;
  auto session = metrics.Open();
  const uint64_t counter = session->CreateFamily("test", "a test", MetricKind::kCounter).value();
  const MetricLabels labels = {{"custom_metric_key", "label1"}, {"a", "x\"y"}};
  const uint64_t one = session->CreateMetric(counter, labels, std::nullopt).value();
  EXPECT_EQ(Text(UserMetrics(metrics)),
            "# HELP test a test\n"
            "# TYPE test counter\n"
            "test{a=\"x\\\"y\",custom_metric_key=\"label1\"} 0\n");
  EXPECT_TRUE(session->Increment(one, 1).ok());
  EXPECT_NE(Text(UserMetrics(metrics)).find("} 1\n"), std::string::npos);
  EXPECT_TRUE(session->Increment(one, 0.5).ok());
  EXPECT_NE(Text(UserMetrics(metrics)).find("} 1.5\n"), std::string::npos);
  session->DropFamily(counter);
  const uint64_t histogram = session->CreateFamily("h", "d", MetricKind::kHistogram).value();
  const std::vector<double> bounds = {0.1, 1, 2.5, 10};
  const uint64_t series = session->CreateMetric(histogram, {{"z", "1"}}, bounds).value();
  EXPECT_TRUE(session->Observe(series, 2).ok());
  EXPECT_EQ(Text(UserMetrics(metrics)),
            "# HELP h d\n"
            "# TYPE h histogram\n"
            "h_count{z=\"1\"} 1\n"
            "h_sum{z=\"1\"} 2\n"
            "h_bucket{z=\"1\",le=\"0.1\"} 0\n"
            "h_bucket{z=\"1\",le=\"1\"} 0\n"
            "h_bucket{z=\"1\",le=\"2.5\"} 1\n"
            "h_bucket{z=\"1\",le=\"10\"} 1\n"
            "h_bucket{z=\"1\",le=\"+Inf\"} 1\n");
}

TEST(StartMetrics, StayWhatTheyWere) {
  const auto before = static_cast<double>(WallNowMs()) * 1e-3;
  const MetricsCollector collect = StartMetrics();
  MetricFamilies families;
  collect(families);
  collect(families);
  const double started = families.at(0).metric.at(0).gauge.value;
  EXPECT_GE(started, before);
  EXPECT_LT(started, before + 60);
  EXPECT_EQ(families.at(1).metric.at(0).gauge.value, started);
}

TEST(CpuMetrics, AreWithinBounds) {
  MetricsCollector collect = CpuMetrics();
  for (int i = 0; i < 2; ++i) {
    MetricFamilies families;
    collect(families);
    ASSERT_EQ(families.size(), 3u);
    EXPECT_EQ(families[0].name, "nv_cpu_utilization");
    EXPECT_GE(families[0].metric.at(0).gauge.value, 0);
    EXPECT_LE(families[0].metric.at(0).gauge.value, 1);
    EXPECT_GT(families[1].metric.at(0).gauge.value, families[2].metric.at(0).gauge.value);
    EXPECT_GT(families[2].metric.at(0).gauge.value, 0);
  }
  EXPECT_NE(Text(CpuMetrics()).find("\nnv_cpu_memory_total_bytes "), std::string::npos);
}

TEST(GpuMetrics, AreThoseThatADeviceTells) {
  const StandinGpus standin("8.6 1048576 A\n8.6 2097152 B");
  const std::vector<GpuDevice> gpus = FindGpus(6.0).devices;
  ASSERT_EQ(gpus.size(), 2);
  Nvml nvml;
  MetricsCollector collect = GpuMetrics(gpus, nvml);
  const std::string label = "{gpu_uuid=\"GPU-5ca1ab1e-0000-4000-8000-000000000001\"} ";
  std::string text = Text(collect);
  for (const char* series : {"nv_gpu_utilization", "nv_gpu_memory_used_bytes", "nv_gpu_power_usage",
                             "nv_gpu_power_limit", "nv_energy_consumption"})
    EXPECT_NE(text.find("\n" + std::string(series) + label), std::string::npos) << series;
  EXPECT_NE(text.find("\nnv_gpu_memory_total_bytes" + label + "2097152\n"), std::string::npos);
  EXPECT_NE(text.find("\nnv_gpu_utilization" + label + "0.26\n"), std::string::npos);
  EXPECT_NE(text.find("# TYPE nv_energy_consumption counter\n"), std::string::npos);
  // The device itself counts from 5000 J.
  const size_t energy = text.find("\nnv_energy_consumption" + label);
  EXPECT_LT(std::stod(text.substr(energy + label.size() + 22)), 10);
  standin.Fail("nvmlDeviceGetPowerUsage 3");
  text = Text(collect);
  EXPECT_EQ(text.find("nv_gpu_power_usage"), std::string::npos);
  EXPECT_NE(text.find("nv_gpu_power_limit"), std::string::npos);
}

TEST(AccessMetrics, CountRefusalsByReason) {
  const auto log = Logger::Create({}).value();
  const auto folder =
      TemporaryFolder::Create(std::filesystem::temp_directory_path(), "braid-access-").value();
  const std::string policy = folder->path() + "/policy.json";
  std::ofstream(policy) << R"({"rules": []})";
  const auto access = AccessControl::Create({"", policy}, *log).value();
  AccessReader reader(access.get());
  EXPECT_FALSE(reader.Check({"", ""}, {Api::kHealth, std::nullopt}).ok());
  EXPECT_FALSE(reader.Check({"", "cn"}, {Api::kHealth, std::nullopt}).ok());
  EXPECT_FALSE(reader.Check({"", "cn"}, {Api::kInference, "m"}).ok());
  const std::string text = Text(AccessMetrics(*access));
  EXPECT_NE(text.find("\nbraid_access_refused_total{reason=\"unauthenticated\"} 1\n"), std::string::npos);
  EXPECT_NE(text.find("\nbraid_access_refused_total{reason=\"permission_denied\"} 2\n"), std::string::npos);
}

// A servable whose instance is this process.
class Ours final : public Servable {
 public:
  using Servable::Servable;
  BufferAllocator& input_allocator() override { return heap_; }
  void Infer(std::unique_ptr<InferenceRequest>) override {}
  Readiness readiness() const override { return {}; }
  int64_t pending_requests() const override { return 0; }
  void Stop(int64_t) override {}
  std::vector<InstanceReport> instances() const override {
    std::vector<InstanceReport> reports(3);
    reports[0].name = "m_0";
    reports[0].pid = ::getpid();
    reports[1].name = "m_1";
    reports[2].name = "m_2";
    reports[2].pid = -1;
    return reports;
  }

 private:
  HeapAllocator heap_;
};

TEST(WorkerMetrics, HaveTheMemoryOfProcessesAndWhatWasDoneToThem) {
  Catalog catalog;
  catalog.Publish(std::make_shared<Ours>(Info("m")));
  WorkerCounters counters;
  ProcessMemory memory;
  const auto row = counters.Add({"m", "1", "m_0"});
  row->execute_timeouts = 3;
  auto older = counters.Add({"m", "1", "m_0"});
  older->execute_timeouts = 4;
  older->memory_replacements = 1;
  InstanceReport images;
  images.name = "images";
  images.pid = ::getpid();
  const MetricsCollector collect = WorkerMetrics(
      catalog, [&] { return std::vector<InstanceReport>{images}; }, counters, memory);
  memory.Ask({::getpid(), -1}, 30'000'000'000);
  const std::string text = Text(collect);
  const std::string labels = R"({instance="m_0",model="m",version="1"} )";
  EXPECT_NE(text.find("\nbraid_worker_pss_bytes" + labels), std::string::npos) << text;
  EXPECT_NE(text.find("\nbraid_worker_pss_bytes{instance=\"images\"} "), std::string::npos) << text;
  EXPECT_EQ(text.find("m_1"), std::string::npos) << "it has no process";
  EXPECT_EQ(text.find("m_2"), std::string::npos) << "its process is gone";
  EXPECT_NE(text.find("\nbraid_worker_execute_timeouts_total" + labels + "7\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\nbraid_worker_memory_replacements_total" + labels + "1\n"), std::string::npos)
      << text;
  older.reset();
  EXPECT_NE(Text(collect).find("\nbraid_worker_execute_timeouts_total" + labels + "3\n"), std::string::npos);
}

TEST(ThreadMetrics, CountStallsByThread) {
  Logger log;
  ThreadWatch watch(log);
  const auto watched = watch.WatchTasks("brd-http-0", [](const auto&) { return false; });
  EXPECT_NE(Text(ThreadMetrics(watch)).find("\nbraid_thread_stalls_total{thread=\"brd-http-0\"} 0\n"),
            std::string::npos);
}

TEST(MetricsRoute, IsThereOnceItIsEnabled) {
  const AccessPolicy access(AccessPolicy::Wire::kHttp);
  FakeControl control;
  MetricsRoute route;
  HttpServer::Options options;
  options.address = "127.0.0.1";
  options.port = 0;
  options.large_threads = 0;
  const auto server = HttpServer::Start(access, control, {&route}, options).value();
  TestClient client(server->bound_port());
  EXPECT_EQ(client.Request("GET", "/metrics")->status, 404);
  route.Enable([] { return std::string("a 1\n"); });
  const auto metrics = client.Request("GET", "/metrics");
  ASSERT_TRUE(metrics);
  EXPECT_EQ(metrics->status, 200);
  EXPECT_EQ(metrics->header("Content-Type"), "text/plain; charset=utf-8");
  EXPECT_EQ(metrics->body, "a 1\n");
  EXPECT_EQ(client.Request("POST", "/metrics")->status, 405);
  EXPECT_EQ(client.Request("GET", "/v2")->status, 404);
  EXPECT_EQ(client.Request("GET", "/metrics?x=1")->status, 200);
}

}  // namespace
}  // namespace braid
