// Instances under load, and the lifetime of their outputs.
#include "backends/openvino/openvino_instance.h"

#include <gmock/gmock.h>

#include <atomic>
#include <new>
#include <thread>

#include "backends/openvino/openvino_errors.h"
#include "backends/openvino/testing/harness.h"

namespace braid {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Passes responses on, and counts executions. Throws instead while `throws` is set.
class SimpleListener final : public ExecutionListener {
 public:
  void OnExecuted(Instance&, int64_t, size_t, const ExecutionTimes&) override { ++executed; }
  void OnResponse(Instance&, InferenceRequest& request, std::optional<InferenceResponse> response, bool final,
                  const ExecutionTimes&) override {
    if (throws) throw std::bad_alloc();
    request.Respond(std::move(response), final);
  }
  void OnRescheduled(Instance&, std::unique_ptr<InferenceRequest>) override {}
  void OnUnstarted(Instance&, std::vector<std::unique_ptr<Execution>>) override {}
  void OnAvailability(Instance&, bool) override {}
  std::atomic<int> executed{0};
  std::atomic<bool> throws{false};
};

class Instances : public OpenVinoHarness {
 protected:
  // A model that takes some milliseconds: a chain of matrix products.
  std::shared_ptr<ov::Model> Slow() {
    auto b = models::Input("b", ov::element::f32, ov::PartialShape{1, 512});
    std::vector<float> identity(512 * 512, 0);
    for (size_t i = 0; i < 512; ++i) identity[i * 513] = 1;
    ov::Output<ov::Node> value = b;
    for (int i = 0; i < 40; ++i) {
      auto weights = ov::opset13::Constant::create(ov::element::f32, {512, 512}, identity);
      auto product = std::make_shared<ov::opset13::MatMul>(value, weights);
      value = std::make_shared<ov::opset13::Relu>(product);
    }
    return std::make_shared<ov::Model>(ov::OutputVector{models::Named("a", value)}, ov::ParameterVector{b});
  }

  // Sends `count` requests from each of `threads` threads and compares every answer.
  void Storm(const std::shared_ptr<Servable>& model, int threads, int count) {
    std::atomic<int> wrong{0};
    std::vector<std::thread> senders;
    for (int t = 0; t < threads; ++t) {
      senders.emplace_back([&, t] {
        std::vector<InferenceResponse> kept;
        for (int i = 0; i < count; ++i) {
          const auto x = static_cast<float>(t * count + i);
          InferenceResponse response = Infer(model, {Floats("b", {1, 2}, {x, -x})});
          const bool good = response.status.ok() && response.outputs.size() == 1 &&
                            ValuesOf<float>(response.outputs[0]) == std::vector<float>{2 * x + 1, -2 * x + 1};
          if (!good) ++wrong;
          if (i % 16 == 0) kept.push_back(std::move(response));
        }
        // Answers that are kept stay unchanged.
        for (size_t k = 0; k < kept.size(); ++k) {
          const auto x = static_cast<float>(t * count + static_cast<int>(k) * 16);
          if (ValuesOf<float>(kept[k].outputs[0]) != std::vector<float>{2 * x + 1, -2 * x + 1}) ++wrong;
        }
      });
    }
    for (std::thread& sender : senders) sender.join();
    EXPECT_EQ(wrong, 0);
  }
};

TEST_F(Instances, ManyRequestsOverTwoInferRequests) {
  for (const ov::PartialShape& shape : {ov::PartialShape{1, 2}, ov::PartialShape{-1, -1}}) {
    Save(models::Affine(shape));
    OvmsModelConfig config = Config();
    config.nireq = 2;
    config.plugin_config["NUM_STREAMS"] = int64_t{2};
    auto model = Start(config);
    ASSERT_NE(model, nullptr);
    Storm(model, 8, 400);
    EXPECT_EQ(model->statistics().Snapshot().success.count, 8u * 400);
    EXPECT_EQ(model->statistics().Snapshot().execution_count, 8u * 400);
    Stop(model);
  }
}

TEST_F(Instances, OneInferRequestServesAll) {
  Save(models::Affine({1, 2}));
  OvmsModelConfig config = Config();
  config.nireq = 1;
  auto model = Start(config);
  ASSERT_NE(model, nullptr);
  Storm(model, 6, 300);
  Stop(model);
}

TEST_F(Instances, OutputsStayWhileLaterInferencesRun) {
  Save(models::Affine({1, 2}));
  auto model = Start(Config());
  std::vector<InferenceResponse> kept;
  for (int i = 0; i < 200; ++i) {
    const auto x = static_cast<float>(i);
    kept.push_back(Infer(model, {Floats("b", {1, 2}, {x, x})}));
  }
  for (int i = 0; i < 200; ++i) {
    const float expected = 2 * static_cast<float>(i) + 1;
    EXPECT_THAT(ValuesOf<float>(kept[static_cast<size_t>(i)].outputs.at(0)), ElementsAre(expected, expected));
  }
  // Returned memory is reused.
  const std::byte* place = kept.back().outputs[0].data.data();
  kept.clear();
  std::set<const std::byte*> places;
  for (int i = 0; i < 100; ++i)
    places.insert(Infer(model, {Floats("b", {1, 2}, {0, 0})}).outputs.at(0).data.data());
  EXPECT_EQ(places.size(), 1u);
  EXPECT_EQ(*places.begin(), place);
  Stop(model);
}

// Other requests may read the inputs at the same time.
TEST_F(Instances, InputsAreNotWrittenTo) {
  for (const ov::PartialShape& shape : {ov::PartialShape{1, 64}, ov::PartialShape{-1, -1}}) {
    auto b = models::Input("b", ov::element::f32, shape);
    auto relu = std::make_shared<ov::opset13::Relu>(b);
    auto a = std::make_shared<ov::opset13::Add>(relu, models::Number(ov::element::f32, 1));
    Save(std::make_shared<ov::Model>(ov::OutputVector{models::Named("a", a->output(0))},
                                     ov::ParameterVector{b}));
    auto model = Start(Config());
    const std::vector<float> values(64, -7);
    const Tensor input = Floats("b", {1, 64}, values);
    for (int i = 0; i < 20; ++i) {
      const InferenceResponse response = Infer(model, {input});
      EXPECT_EQ(ValuesOf<float>(response.outputs.at(0)), std::vector<float>(64, 1));
      EXPECT_EQ(ValuesOf<float>(input), values);
    }
    Stop(model);
  }
}

TEST_F(Instances, WhatNobodyWantsAnyMoreDoesNotRun) {
  Save(Slow());
  OvmsModelConfig config = Config();
  config.nireq = 1;
  auto loaded = Load(config);
  ASSERT_TRUE(loaded.ok());
  SimpleListener listener;
  ASSERT_TRUE(loaded->model->Start(listener, [](const std::string&) {}).ok());
  WaitingSink sink;
  auto execution = std::make_unique<Execution>();
  execution->rows = 1;
  auto request = std::make_unique<InferenceRequest>();
  request->inputs = {Floats("b", {1, 512}, std::vector<float>(512, 1))};
  request->sink = &sink;
  request->cancellation = std::make_shared<Cancellation>();
  request->cancellation->Cancel();
  execution->requests.push_back(std::move(request));
  loaded->model->instances()[0]->Execute(std::move(execution));
  EXPECT_EQ(sink.Wait().status.code(), StatusCode::kCancelled);
  loaded->model->Stop(SteadyNowNs() + 1'000'000'000);
}

// An answer may outlive its model.
TEST_F(Instances, OutputsOutliveTheModel) {
  for (const ov::PartialShape& shape : {ov::PartialShape{1, 2}, ov::PartialShape{-1, -1}}) {
    Save(models::Affine(shape));
    auto model = Start(Config());
    const InferenceResponse kept = Infer(model, {Floats("b", {1, 2}, {4, 5})});
    Stop(model);
    model.reset();
    EXPECT_THAT(ValuesOf<float>(kept.outputs.at(0)), ElementsAre(9, 11));
  }
}

// The caller would otherwise answer itself, as it does for a short one.
TEST_F(Instances, ALongInferenceRunsOnAnotherThreadThanItsCallers) {
  Save(Slow());
  OvmsModelConfig config = Config();
  config.nireq = 1;
  auto model = Start(config);
  std::vector<float> values(512, 3);
  (void)Infer(model, {Floats("b", {1, 512}, values)});
  WaitingSink sinks[4];
  for (WaitingSink& sink : sinks) Send(model, {Floats("b", {1, 512}, values)}, sink);
  for (WaitingSink& sink : sinks) {
    EXPECT_EQ(ValuesOf<float>(sink.Wait().outputs.at(0)), values);
    EXPECT_NE(sink.thread(), std::this_thread::get_id());
  }
  Stop(model);
}

TEST_F(Instances, StopEndsWhatIsInside) {
  Save(Slow());
  OvmsModelConfig config = Config();
  config.nireq = 1;
  auto loaded = Load(config);
  ASSERT_TRUE(loaded.ok());

  // Called directly, since a scheduler would hold requests back.
  SimpleListener listener;
  ASSERT_TRUE(loaded->model->Start(listener, [](const std::string&) {}).ok());
  Instance& instance = *loaded->model->instances()[0];
  constexpr int kCount = 30;
  WaitingSink sinks[kCount];
  for (WaitingSink& sink : sinks) {
    auto execution = std::make_unique<Execution>();
    execution->rows = 1;
    auto request = std::make_unique<InferenceRequest>();
    request->inputs = {Floats("b", {1, 512}, std::vector<float>(512, 1))};
    request->sink = &sink;
    execution->requests.push_back(std::move(request));
    instance.Execute(std::move(execution));
  }
  loaded->model->Stop(SteadyNowNs());
  EXPECT_EQ(listener.executed, kCount);
  int stopped = 0;
  for (WaitingSink& sink : sinks) {
    const InferenceResponse response = sink.Wait();
    if (response.status.code() == StatusCode::kUnavailable) ++stopped;
  }
  EXPECT_GT(stopped, 0);
}

TEST_F(Instances, AnAnswerThatCannotBeToldEndsItsRequestAndTheNextOneRuns) {
  Save(models::Affine({1, 2}));
  auto loaded = Load(Config());
  ASSERT_TRUE(loaded.ok());
  SimpleListener listener;
  ASSERT_TRUE(loaded->model->Start(listener, [](const std::string&) {}).ok());
  for (const bool throws : {true, true, false}) {
    listener.throws = throws;
    WaitingSink sink;
    auto execution = std::make_unique<Execution>();
    execution->rows = 1;
    auto request = std::make_unique<InferenceRequest>();
    request->inputs = {Floats("b", {1, 2}, {4, 5})};
    request->sink = &sink;
    execution->requests.push_back(std::move(request));
    loaded->model->instances()[0]->Execute(std::move(execution));
    EXPECT_EQ(sink.Wait().status.ok(), !throws);
  }
  loaded->model->Stop(SteadyNowNs() + 1'000'000'000);
  EXPECT_EQ(listener.executed, 3);
}

TEST_F(Instances, FaultsOfARequestAreAnsweredAndTheNextOneRuns) {
  Save(models::Affine({1, 2}));
  auto loaded = Load(Config());
  ASSERT_TRUE(loaded.ok());
  // Bypasses the checks in front of the instance.
  SimpleListener listener;
  ASSERT_TRUE(loaded->model->Start(listener, [](const std::string&) {}).ok());
  const auto run = [&](std::vector<Tensor> inputs) {
    WaitingSink sink;
    auto execution = std::make_unique<Execution>();
    execution->rows = 1;
    auto request = std::make_unique<InferenceRequest>();
    request->inputs = std::move(inputs);
    request->sink = &sink;
    execution->requests.push_back(std::move(request));
    loaded->model->instances()[0]->Execute(std::move(execution));
    return sink.Wait();
  };
  EXPECT_THAT(run({}).status.message(), HasSubstr("input 'b' of model 'm' is missing"));
  EXPECT_THAT(run({MakeTensor<int32_t>("b", DataType::kInt32, {1, 2}, {1, 2})}).status.message(),
              HasSubstr("is of type INT32, not FP32"));
  EXPECT_THAT(run({Floats("b", {1, 3}, {1, 2})}).status.message(), HasSubstr("has 8 bytes"));
  EXPECT_THAT(run({Floats("b", {1, 3}, {1, 2, 3})}).status.message(),
              HasSubstr("Internal inference error - "));
  // Memory at an address that is not aligned for numbers.
  HeapAllocator heap;
  Buffer odd = heap.Allocate(9).value();
  const float values[] = {1, 2};
  std::memcpy(odd.mutable_data() + 1, values, sizeof(values));
  const auto good = run({Tensor{"b", DataType::kFp32, {1, 2}, odd.Slice(1, 8)}});
  ASSERT_TRUE(good.status.ok()) << good.status;
  EXPECT_THAT(ValuesOf<float>(good.outputs.at(0)), ElementsAre(3, 5));
  loaded->model->Stop(SteadyNowNs() + 1'000'000'000);
}

TEST(RunPolicy, ShortInferencesRunOnTheCallersThread) {
  RunTimes times;
  EXPECT_FALSE(RunsOnCaller(times, 8));  // nothing measured yet
  times = UpdateRunTimes(times, 20'000, 8);
  EXPECT_TRUE(RunsOnCaller(times, 8));
  EXPECT_FALSE(RunsOnCaller(times, 9));  // larger than any measured input
  // One long run has little effect, many have much.
  times = UpdateRunTimes(times, 50'000'000, 4);
  EXPECT_TRUE(RunsOnCaller(times, 8));
  for (int i = 0; i < 20; ++i) times = UpdateRunTimes(times, 1'000'000, 8);
  EXPECT_FALSE(RunsOnCaller(times, 8));
  for (int i = 0; i < 60; ++i) times = UpdateRunTimes(times, 6'000, 8);
  EXPECT_TRUE(RunsOnCaller(times, 8));
}

TEST(CleanOpenVinoText, KeepsWhatItSaysAndLeavesOutWhere) {
  EXPECT_EQ(CleanOpenVinoText(
                "Exception from src/inference/src/cpp/core.cpp:84:\nCheck 'a(b)' failed at "
                "src/frontends/common/src/frontend.cpp:117:\nFrontEnd API failed with GeneralFailure:\n"
                "ir: Could not open the file: \"x.xml\"\n\n"),
            "FrontEnd API failed with GeneralFailure: ir: Could not open the file: \"x.xml\"");
  EXPECT_EQ(CleanOpenVinoText("Check 'x' failed at a.cpp:1:\n"), "Check 'x' failed");
  // Also in the middle of a line.
  EXPECT_EQ(CleanOpenVinoText("Exception from src/inference/src/cpp/infer_request.cpp:224:\n"
                              "Exception from src/plugins/intel_cpu/src/node.cpp:823:\n"
                              "[CPU] Reshape node with name 'R' Check 'n <= 1' failed at "
                              "src/plugins/intel_cpu/src/shape_inference/custom/reshape.cpp:77:\n"
                              "[cpu]reshape: the shape of input data (2.5) conflicts\n\n"),
            "[CPU] Reshape node with name 'R'; [cpu]reshape: the shape of input data (2.5) conflicts");
  EXPECT_EQ(CleanOpenVinoText("Caught exception: Exception from src/a/b.hpp:55: it broke at src/c.h:7"),
            "Caught exception:  it broke");
  // Text that is not a location stays.
  EXPECT_EQ(CleanOpenVinoText("no file a.cpp: none, b.h:x, 'c:9'"), "no file a.cpp: none, b.h:x, 'c:9'");
  EXPECT_EQ(CleanOpenVinoText("one\ntwo\n"), "one; two");
}

}  // namespace
}  // namespace braid
