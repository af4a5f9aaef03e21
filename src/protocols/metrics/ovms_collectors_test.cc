#include "protocols/metrics/ovms_collectors.h"

#include <gtest/gtest.h>

#include "serving/testing/fake_keeper.h"

namespace braid {
namespace {

class StillServable final : public Servable {
 public:
  using Servable::Servable;
  BufferAllocator& input_allocator() override { return heap_; }
  void Infer(std::unique_ptr<InferenceRequest> request) override {
    request->Respond(InferenceResponse(), true);
  }
  Readiness readiness() const override { return {}; }
  int64_t pending_requests() const override { return pending; }
  SequenceKeeper* sequences() override { return stateful ? &keeper : nullptr; }
  void Stop(int64_t) override {}

  int64_t pending = 0;
  bool stateful = false;
  FakeKeeper keeper;

 private:
  HeapAllocator heap_;
};

class Sink final : public ResponseSink {
 public:
  void Respond(std::optional<InferenceResponse>, bool) override {}
};

class OvmsMetricsTest : public testing::Test {
 protected:
  OvmsMetricsTest() { dummy_ = Publish("dummy", ServableKind::kModel); }

  std::shared_ptr<StillServable> Publish(const std::string& name, ServableKind kind,
                                         Dialect dialect = Dialect::kOvms) {
    ServableInfo info;
    info.name = name;
    info.kind = kind;
    info.dialect = dialect;
    info.instance_count = 4;
    auto servable = std::make_shared<StillServable>(std::move(info));
    servable->statistics().Configure(OvmsLatencyOptions());
    catalog_.Publish(servable);
    return servable;
  }
  std::string Text(const std::vector<std::string>& list = {}) {
    auto collect = OvmsMetrics(catalog_, list);
    EXPECT_TRUE(collect.ok()) << collect.status();
    return OvmsMetricsText(*collect);
  }
  // Returns the value of a series, or "" if absent.
  static std::string Value(const std::string& text, const std::string& series) {
    const size_t at = text.find(series + " ");
    if (at == std::string::npos) return "";
    const size_t from = at + series.size() + 1;
    return text.substr(from, text.find('\n', from) - from);
  }

  Catalog catalog_{Dialect::kOvms};
  std::shared_ptr<StillServable> dummy_;
};

TEST_F(OvmsMetricsTest, CountsCallsByApi) {
  dummy_->api_counters().Count({ApiProtocol::kKServe, ApiInterface::kRest, ApiMethod::kModelReady}, true);
  dummy_->api_counters().Count({ApiProtocol::kTensorFlowServing, ApiInterface::kGrpc, ApiMethod::kPredict},
                               false);
  const std::string text = Text();
  EXPECT_EQ(
      Value(
          text,
          R"(ovms_requests_success{api="KServe",interface="REST",method="ModelReady",name="dummy",version="1"})"),
      "1");
  EXPECT_EQ(
      Value(
          text,
          R"(ovms_requests_success{api="KServe",interface="gRPC",method="ModelInfer",name="dummy",version="1"})"),
      "0");
  EXPECT_EQ(
      Value(
          text,
          R"(ovms_requests_fail{api="TensorFlowServing",interface="gRPC",method="Predict",name="dummy",version="1"})"),
      "1");
  EXPECT_EQ(text.find("ModelInferStream"), std::string::npos);
  EXPECT_NE(text.find("# TYPE ovms_requests_success counter"), std::string::npos);
}

TEST_F(OvmsMetricsTest, CountsRequestsAsTheyEnd) {
  Sink sink;
  const ApiCall call{ApiProtocol::kKServe, ApiInterface::kGrpc, ApiMethod::kModelInfer};
  for (bool good : {true, true, false}) {
    InferenceRequest request;
    request.api = call;
    request.sink = &sink;
    request.servable = ServableHandle::Enter(dummy_);
    if (good) {
      request.Respond(InferenceResponse(), true);
    } else {
      request.Fail(InternalError("x"));
    }
  }
  EXPECT_EQ(dummy_->api_counters().success(call), 2u);
  EXPECT_EQ(dummy_->api_counters().fail(call), 1u);
  const std::string text = Text();
  EXPECT_EQ(Value(text, R"(ovms_request_time_us_count{interface="gRPC",name="dummy",version="1"})"), "3");
  EXPECT_EQ(Value(text, R"(ovms_request_time_us_count{interface="REST",name="dummy",version="1"})"), "0");
}

TEST_F(OvmsMetricsTest, HasHistogramsOfInferences) {
  ExecutionTimes times;
  times.compute_start_ns = 15'000;
  times.input_end_ns = 15'000;
  times.infer_end_ns = 65'000;
  times.output_end_ns = 65'000;
  dummy_->statistics().RecordSuccess(1, 0, 0, times);
  const std::string text = Text();
  EXPECT_EQ(Value(text, R"(ovms_inference_time_us_bucket{name="dummy",version="1",le="32"})"), "0");
  EXPECT_EQ(Value(text, R"(ovms_inference_time_us_bucket{name="dummy",version="1",le="58"})"), "1");
  EXPECT_EQ(Value(text, R"(ovms_inference_time_us_sum{name="dummy",version="1"})"), "50");
  EXPECT_EQ(Value(text, R"(ovms_wait_for_infer_req_time_us_bucket{name="dummy",version="1",le="10"})"), "0");
  EXPECT_EQ(Value(text, R"(ovms_wait_for_infer_req_time_us_bucket{name="dummy",version="1",le="18"})"), "1");
  EXPECT_EQ(Value(text, R"(ovms_wait_for_infer_req_time_us_bucket{name="dummy",version="1",le="+Inf"})"),
            "1");
}

TEST_F(OvmsMetricsTest, BucketsAreBetweenMicrosecondsAndMinutes) {
  const LatencyOptions options = OvmsLatencyOptions();
  ASSERT_EQ(options.ovms_bounds_us.size(), 33u);
  EXPECT_EQ(options.ovms_bounds_us.front(), 10);
  EXPECT_GT(options.ovms_bounds_us.back(), 6e8);
  EXPECT_TRUE(std::is_sorted(options.ovms_bounds_us.begin(), options.ovms_bounds_us.end()));
}

TEST_F(OvmsMetricsTest, ShowsWhatIsGoingOn) {
  auto one = ServableHandle::Enter(dummy_);
  auto two = ServableHandle::Enter(dummy_);
  dummy_->pending = 1;
  const std::string text =
      Text({"ovms_streams", "ovms_current_requests", "ovms_infer_req_queue_size", "ovms_infer_req_active"});
  EXPECT_EQ(Value(text, R"(ovms_current_requests{name="dummy",version="1"})"), "2");
  EXPECT_EQ(Value(text, R"(ovms_streams{name="dummy",version="1"})"), "4");
  EXPECT_EQ(Value(text, R"(ovms_infer_req_queue_size{name="dummy",version="1"})"), "4");
  EXPECT_EQ(Value(text, R"(ovms_infer_req_active{name="dummy",version="1"})"), "1");
  EXPECT_EQ(text.find("ovms_requests"), std::string::npos);
}

TEST_F(OvmsMetricsTest, OptionalFamiliesAreAskedFor) {
  const std::string text = Text();
  EXPECT_EQ(text.find("ovms_infer_req"), std::string::npos);
  EXPECT_NE(text.find("ovms_streams{"), std::string::npos);
}

TEST_F(OvmsMetricsTest, PipelinesHaveNoInstances) {
  Publish("pipeline", ServableKind::kPipeline);
  const std::string text = Text();
  EXPECT_EQ(Value(text, R"(ovms_current_requests{name="pipeline",version="1"})"), "0");
  EXPECT_EQ(Value(text, R"(ovms_streams{name="pipeline",version="1"})"), "");
  EXPECT_EQ(Value(text, R"(ovms_inference_time_us_count{name="pipeline",version="1"})"), "");
  EXPECT_EQ(Value(text, R"(ovms_request_time_us_count{interface="gRPC",name="pipeline",version="1"})"), "0");
}

TEST_F(OvmsMetricsTest, GraphsHaveTheirOwnFamilies) {
  auto graph = Publish("graph", ServableKind::kGraph);
  ApiCounters& counters = graph->api_counters();
  const ApiCall stream{ApiProtocol::kKServe, ApiInterface::kGrpc, ApiMethod::kModelInferStream};
  counters.CountRequest(stream, true);
  counters.CountRequest(stream, true);
  counters.CountRequest(stream, false);
  for (int i = 0; i < 5; ++i) counters.CountResponse(stream);
  for (int i = 0; i < 3; ++i) counters.GraphBegan();
  counters.GraphEnded(true);
  counters.GraphEnded(false);
  graph->statistics().RecordGraphRun(ApiMethod::kModelInferStream, 15'000);
  graph->statistics().RecordGraphLatency(ApiMethod::kModelInfer, 40'000);

  const std::string text = Text();
  EXPECT_EQ(Value(text, R"(ovms_current_graphs{name="graph"})"), "1");
  const std::string streamed = R"({api="KServe",interface="gRPC",method="ModelInferStream",name="graph"})";
  EXPECT_EQ(Value(text, "ovms_requests_accepted" + streamed), "2");
  EXPECT_EQ(Value(text, "ovms_requests_rejected" + streamed), "1");
  EXPECT_EQ(Value(text, "ovms_responses" + streamed), "5");
  EXPECT_EQ(
      Value(text,
            R"(ovms_requests_accepted{api="KServe",interface="REST",method="ModelInfer",name="graph"})"),
      "0");
  EXPECT_EQ(
      Value(text, R"(ovms_requests_success{api="KServe",interface="gRPC",method="ModelReady",name="graph"})"),
      "0");
  EXPECT_EQ(text.find("ovms_graph_"), std::string::npos);
  EXPECT_EQ(text.find("ovms_requests_accepted{api=\"KServe\",interface=\"gRPC\",method=\"ModelInfer\",name="
                      "\"dummy\""),
            std::string::npos);

  const std::string optional =
      Text({"ovms_graph_error", "ovms_graph_processing_time_us", "ovms_graph_request_latency_us"});
  EXPECT_EQ(Value(optional, R"(ovms_graph_error{name="graph"})"), "1");
  EXPECT_EQ(Value(optional, R"(ovms_graph_processing_time_us_sum{method="ModelInferStream",name="graph"})"),
            "15");
  EXPECT_EQ(Value(optional, R"(ovms_graph_processing_time_us_count{method="ModelInfer",name="graph"})"), "0");
  EXPECT_EQ(Value(optional, R"(ovms_graph_request_latency_us_sum{method="ModelInfer",name="graph"})"), "40");
}

TEST_F(OvmsMetricsTest, CountsWhatBecameOfRequestsToGraphs) {
  auto graph = Publish("graph", ServableKind::kGraph);
  Sink sink;
  const ApiCall call{ApiProtocol::kKServe, ApiInterface::kRest, ApiMethod::kModelInfer};
  const auto request = [&] {
    auto made = std::make_unique<InferenceRequest>();
    made->api = call;
    made->sink = &sink;
    made->servable = ServableHandle::Enter(graph);
    return made;
  };
  request()->Respond(InferenceResponse(), true);
  request()->Fail(InvalidArgumentError("a node"));
  request()->Refuse(InvalidArgumentError("an input"));
  EXPECT_EQ(graph->api_counters().success(call), 1u);
  EXPECT_EQ(graph->api_counters().fail(call), 2u);
  EXPECT_EQ(graph->api_counters().accepted(call), 2u);
  EXPECT_EQ(graph->api_counters().rejected(call), 1u);
  EXPECT_EQ(graph->api_counters().responses(call), 1u);
}

TEST_F(OvmsMetricsTest, LeavesTritonsModelsOut) {
  Publish("triton", ServableKind::kModel, Dialect::kTriton);
  EXPECT_EQ(Text().find("triton"), std::string::npos);
}

TEST_F(OvmsMetricsTest, RefusesUnknownNames) {
  auto collect = OvmsMetrics(catalog_, {"ovms_streams", "ovms_dreams"});
  ASSERT_FALSE(collect.ok());
  EXPECT_EQ(collect.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(collect.status().message(), "Invalid name in metrics_list - ovms_dreams");
  EXPECT_TRUE(OvmsMetrics(catalog_, {"ovms_current_graphs", "ovms_graph_error"}).ok());
}

TEST_F(OvmsMetricsTest, CountsSequencesOfWhoHasThem) {
  EXPECT_EQ(Text().find("braid_sequences"), std::string::npos);
  dummy_->stateful = true;
  dummy_->keeper.counts_now = {
      .active = 3, .started = 10, .restored = 1, .ended = 5, .expired = 2, .lost = 1, .rejected = 7};
  const std::string text = Text();
  const std::string labels = "{name=\"dummy\",version=\"1\"}";
  EXPECT_NE(text.find("# TYPE braid_sequences_active gauge"), std::string::npos);
  EXPECT_NE(text.find("# TYPE braid_sequences_started counter"), std::string::npos);
  EXPECT_EQ(Value(text, "braid_sequences_active" + labels), "3");
  EXPECT_EQ(Value(text, "braid_sequences_started" + labels), "10");
  EXPECT_EQ(Value(text, "braid_sequences_restored" + labels), "1");
  EXPECT_EQ(Value(text, "braid_sequences_ended" + labels), "5");
  EXPECT_EQ(Value(text, "braid_sequences_expired" + labels), "2");
  EXPECT_EQ(Value(text, "braid_sequences_lost" + labels), "1");
  EXPECT_EQ(Value(text, "braid_sequences_rejected" + labels), "7");
}

}  // namespace
}  // namespace braid
