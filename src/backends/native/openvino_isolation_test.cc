#include "backends/native/openvino_isolation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <condition_variable>
#include <mutex>
#include <numeric>

#include "backends/native/native_model.h"
#include "backends/native/testing/test_workers.h"
#include "backends/openvino/testing/triton_harness.h"
#include "base/testing/places.h"
#include "serving/faults.h"
#include "tensor/shared_bytes.h"

namespace braid {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

// Collects answers, with the memory of their outputs.
class Answers final : public ExecutionListener {
 public:
  void OnExecuted(Instance&, int64_t, size_t, const ExecutionTimes&) override {}
  void OnResponse(Instance&, InferenceRequest&, std::optional<InferenceResponse> response, bool,
                  const ExecutionTimes&) override {
    std::lock_guard lock(mutex_);
    responses_.push_back(std::move(*response));
    changed_.notify_all();
  }
  void OnRescheduled(Instance&, std::unique_ptr<InferenceRequest>) override {}
  void OnUnstarted(Instance&, std::vector<std::unique_ptr<Execution>> executions) override {
    std::lock_guard lock(mutex_);
    unstarted_ += executions.size();
    changed_.notify_all();
  }
  void OnAvailability(Instance&, bool available) override {
    std::lock_guard lock(mutex_);
    available_.push_back(available);
    changed_.notify_all();
  }

  InferenceResponse Next() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(
        changed_.wait_for(lock, std::chrono::seconds(30), [this] { return taken_ < responses_.size(); }));
    return responses_.at(taken_++);
  }
  // Waits until an execution has failed or was given back.
  void AwaitEnd() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(30),
                                  [&] { return responses_.size() + unstarted_ == 1; }));
    for (const InferenceResponse& response : responses_)
      EXPECT_EQ(response.status.code(), StatusCode::kInternal);
  }
  void AwaitAvailability(const std::vector<bool>& expected) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(30), [&] { return available_ == expected; }));
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<InferenceResponse> responses_;
  size_t taken_ = 0;
  size_t unstarted_ = 0;
  std::vector<bool> available_;
};

std::unique_ptr<Execution> ExecutionOf(std::vector<Tensor> inputs) {
  auto execution = std::make_unique<Execution>();
  execution->rows = 1;
  execution->compute_start_ns = SteadyNowNs();
  execution->requests.push_back(std::make_unique<InferenceRequest>());
  execution->requests.back()->inputs = std::move(inputs);
  return execution;
}

class OpenVinoIsolationTest : public TritonHarness {
 protected:
  std::unique_ptr<OpenVinoIsolation> Make(std::vector<std::string> program = {test_places::kNativeWorker},
                                          bool isolate = true) {
    OpenVinoIsolation::Options options;
    options.isolate = isolate;
    options.workers = &workers_.Make(std::move(program));
    return OpenVinoIsolation::Create(std::move(options), log_).value();
  }
  OpenVinoIsolation& isolation() {
    if (isolation_ == nullptr) isolation_ = Make();
    return *isolation_;
  }
  std::shared_ptr<InstancePool> StartApart(const OvmsModelConfig& config) {
    auto loaded = isolation().Load(config, 1, config.base_path + "/1");
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    if (!loaded.ok()) return nullptr;
    return StartModel(std::move(loaded->info), std::move(loaded->model), timers_, log_,
                      [](const std::string&) {})
        .value();
  }

  TestWorkers workers_{log_};
  std::unique_ptr<OpenVinoIsolation> isolation_;
};

TEST_F(OpenVinoIsolationTest, AModelIsDescribedAndAnswersAsInsideTheServer) {
  Save(models::Affine({{1, 8}, -1, 3}));
  OvmsModelConfig config = Config();
  config.nireq = 2;
  const auto inside = Load(config);
  const auto model = StartApart(config);
  ASSERT_NE(model, nullptr);
  const ServableInfo& info = model->info();
  EXPECT_EQ(info.name, "m");
  EXPECT_EQ(info.dialect, Dialect::kOvms);
  EXPECT_EQ(info.platform, inside->info.platform);
  EXPECT_EQ(info.instance_count, 2);
  EXPECT_EQ(info.stream_count, inside->info.stream_count);
  ASSERT_EQ(info.inputs.size(), 1u);
  EXPECT_EQ(info.inputs[0].shape, inside->info.inputs[0].shape);
  EXPECT_EQ(info.inputs[0].ranges, inside->info.inputs[0].ranges);
  EXPECT_EQ(info.config->SerializeAsString(), inside->info.config->SerializeAsString());
  const std::vector<InstanceReport> instances = model->instances();
  ASSERT_EQ(instances.size(), 2u);
  EXPECT_EQ(instances[0].name, "m_0_0");
  EXPECT_EQ(instances[1].name, "m_0_1");
  EXPECT_GT(instances[0].pid, 0);
  EXPECT_EQ(instances[1].pid, 0) << "the process is told of once";

  const InferenceResponse response = Infer(model, {Floats("b", {2, 1, 3}, {0, 1, 2, 3, 4, 5})});
  ASSERT_TRUE(response.status.ok()) << response.status;
  EXPECT_EQ(response.outputs.at(0).name, "a");
  EXPECT_EQ(Dims(response.outputs[0].shape), (std::vector<int64_t>{2, 1, 3}));
  EXPECT_EQ(ValuesOf<float>(response.outputs[0]), (std::vector<float>{1, 3, 5, 7, 9, 11}));
  Stop(model);
}

TEST_F(OpenVinoIsolationTest, LargeTensorsLieInSharedMemory) {
  Save(models::Affine({-1}), "dynamic");
  Save(models::Affine({1 << 18}), "fixed");
  for (const char* name : {"dynamic", "fixed"}) {
    const auto model = StartApart(Config(name));
    ASSERT_NE(model, nullptr);
    std::vector<float> values(1 << 18);
    std::iota(values.begin(), values.end(), 0.0f);
    for (int round = 0; round < 3; ++round) {
      Tensor input = Floats("b", {1 << 18}, values);
      const Buffer shared = model->input_allocator().Allocate(input.data.size()).value();
      std::memcpy(const_cast<std::byte*>(shared.data()), input.data.data(), shared.size());
      input.data = shared;
      const InferenceResponse response = Infer(model, {input});
      ASSERT_TRUE(response.status.ok()) << response.status;
      const Buffer& output = response.outputs.at(0).data;
      EXPECT_NE(dynamic_cast<SegmentBlock*>(output.owner()), nullptr);
      EXPECT_NE(dynamic_cast<SharedBytes*>(output.owner()), nullptr);
      ASSERT_EQ(output.size(), values.size() * sizeof(float));
      EXPECT_EQ(ValuesOf<float>(response.outputs[0])[1000], 2001);
      EXPECT_EQ(ValuesOf<float>(response.outputs[0]).back(), 2.0f * ((1 << 18) - 1) + 1);
    }
    Stop(model);
  }
}

TEST_F(OpenVinoIsolationTest, StringsGoInAndOut) {
  Save(models::Same({-1}, ov::element::string));
  const auto model = StartApart(Config());
  ASSERT_NE(model, nullptr);
  const std::vector<std::string> texts = {"one", "", std::string(5000, 'x')};
  const InferenceResponse response = Infer(model, {Strings("in", {3}, texts)});
  ASSERT_TRUE(response.status.ok()) << response.status;
  EXPECT_EQ(response.outputs.at(0).data.text(), Strings("in", {3}, texts).data.text());
  Stop(model);
}

// Neither the operator nor the model decides where it runs.
TEST_F(OpenVinoIsolationTest, OperationsOnStringsThatMayCrashRunApart) {
  isolation_ = Make({test_places::kNativeWorker}, false);
  auto in = models::Input("in", ov::element::string, {-1});
  auto same = std::make_shared<ov::opset13::Equal>(in, in);
  Save(std::make_shared<ov::Model>(ov::OutputVector{models::Named("out", same->output(0))},
                                   ov::ParameterVector{in}, "equal"));
  Save(models::Same({-1}, ov::element::string), "safe");
  const auto is_apart = [&](const OvmsModelConfig& config) {
    const auto model = StartApart(config);
    const bool apart = model != nullptr && model->instances().at(0).pid > 0;
    if (model != nullptr) Stop(model);
    return apart;
  };
  EXPECT_TRUE(is_apart(Config()));
  EXPECT_FALSE(is_apart(Config("safe")));
  OvmsModelConfig trusted = Config();
  trusted.isolate = false;
  EXPECT_FALSE(is_apart(trusted));

  inference::ModelConfig config;
  config.set_name("m");
  config.set_backend("openvino");
  const ModelLocation location = Location(config);
  ASSERT_TRUE(isolation().AutoComplete(location, config).ok());
  NormalizeConfig(config);
  const auto model = isolation().Create(location, std::make_shared<const inference::ModelConfig>(config));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_NE(dynamic_cast<NativeModel*>(model->get()), nullptr);
}

TEST_F(OpenVinoIsolationTest, WhatKeepsAModelFromLoadingIsSaidAsInsideTheServer) {
  Save(models::Affine({-1, 3}));
  OvmsModelConfig wrong = Config();
  wrong.shapes["c"] = {false, {{1, 1}, {3, 3}}};
  OvmsModelConfig device = Config();
  device.target_device = "NONE";
  OvmsModelConfig missing = Config("missing");
  Write(folder_->path() + "/broken/1/model.onnx", "this is none");
  for (const OvmsModelConfig& config : {wrong, device, missing, Config("broken")}) {
    const Status inside = Load(config).status();
    const Status apart = isolation().Load(config, 1, config.base_path + "/1").status();
    EXPECT_FALSE(inside.ok());
    EXPECT_EQ(apart, inside);
    EXPECT_EQ(apart.fault(), inside.fault());
  }
}

TEST_F(OpenVinoIsolationTest, AModelOfARepositoryIsCompletedAndRunApart) {
  Save(models::Affine({-1, 3}));
  inference::ModelConfig config;
  config.set_name("m");
  config.set_backend("openvino");
  (*config.mutable_parameters())["ISOLATE"].set_string_value("true");
  inference::ModelConfig inside = config;
  const ModelLocation location = Location(config);
  ASSERT_TRUE(backend_->AutoComplete(location, inside).ok());
  ASSERT_TRUE(isolation().AutoComplete(location, config).ok());
  EXPECT_EQ(config.DebugString(), inside.DebugString());

  NormalizeConfig(config);
  auto model = isolation().Create(location, std::make_shared<const inference::ModelConfig>(config));
  ASSERT_TRUE(model.ok()) << model.status();
  Answers answers;
  ASSERT_TRUE((*model)->Start(answers, [](const std::string&) {}).ok());
  (*model)->instances().at(0)->Execute(ExecutionOf({Floats("b", {1, 3}, {1, 2, 3})}));
  const InferenceResponse response = answers.Next();
  ASSERT_TRUE(response.status.ok()) << response.status;
  EXPECT_EQ(ValuesOf<float>(response.outputs.at(0)), (std::vector<float>{3, 5, 7}));
  (*model)->Stop(SteadyNowNs() + 10 * kSecond);
}

TEST_F(OpenVinoIsolationTest, WhatAClientBringsRunsApartWhateverItSays) {
  Save(models::Affine({-1, 3}));
  inference::ModelConfig config;
  config.set_name("m");
  config.set_backend("openvino");
  (*config.mutable_parameters())["ISOLATE"].set_string_value("false");
  ModelLocation location = Location(config);
  ASSERT_TRUE(isolation().AutoComplete(location, config).ok());
  NormalizeConfig(config);
  const auto pid = [&] {
    auto model = isolation().Create(location, std::make_shared<const inference::ModelConfig>(config));
    EXPECT_TRUE(model.ok()) << model.status();
    return (*model)->instances().at(0)->report().pid;
  };
  EXPECT_EQ(pid(), 0);
  location.temporary_files = std::make_shared<int>(0);
  EXPECT_NE(pid(), 0);
}

TEST_F(OpenVinoIsolationTest, AModelMaySayWhereItRuns) {
  Save(models::Affine({-1, 3}));
  OvmsModelConfig config = Config();
  config.isolate = false;
  auto inside = isolation().Load(config, 1, config.base_path + "/1");
  ASSERT_TRUE(inside.ok()) << inside.status();
  EXPECT_EQ(inside->model->instances().at(0)->report().pid, 0);

  inference::ModelConfig wrong;
  wrong.set_name("m");
  (*wrong.mutable_parameters())["ISOLATE"].set_string_value("yes");
  EXPECT_EQ(isolation().AutoComplete(Location(wrong), wrong),
            InvalidArgumentError("model 'm': parameter 'ISOLATE' is 'yes', expected \"true\" or \"false\""));
}

TEST_F(OpenVinoIsolationTest, AWorkerThatIsKilledComesBackAndOneThatIsStoppedIsGone) {
  Save(models::Affine({-1, 3}));
  const auto model = StartApart(Config());
  ASSERT_NE(model, nullptr);
  const pid_t first = model->instances().at(0).pid;
  ASSERT_GT(first, 0);
  kill(first, SIGKILL);
  // Waits for the worker's restart.
  const auto ask = [&] { return Infer(model, {Floats("b", {1, 3}, {1, 2, 3})}); };
  InferenceResponse response = ask();
  // The dying worker may have received the request.
  if (!response.status.ok()) response = ask();
  ASSERT_TRUE(response.status.ok()) << response.status;
  EXPECT_EQ(ValuesOf<float>(response.outputs.at(0)), (std::vector<float>{3, 5, 7}));
  const InstanceReport report = model->instances().at(0);
  EXPECT_NE(report.pid, first);
  EXPECT_EQ(report.restarts, 1u);
  EXPECT_TRUE(report.ready);
  Stop(model);
  EXPECT_EQ(kill(report.pid, 0), -1) << "it has ended with its model";
}

TEST_F(OpenVinoIsolationTest, AModelThatIsLoadedAndNotStartedLeavesNothing) {
  Save(models::Affine({-1, 3}));
  auto loaded = isolation().Load(Config(), 1, Config().base_path + "/1");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const pid_t pid = loaded->model->instances().at(0)->report().pid;
  ASSERT_EQ(kill(pid, 0), 0);
  loaded->model = nullptr;
  EXPECT_EQ(kill(pid, 0), -1);
}

TEST_F(OpenVinoIsolationTest, AProgramThatIsNoWorkerIsAnErrorOfTheModel) {
  Save(models::Affine({-1, 3}));
  isolation_ = Make({"/bin/true"});
  EXPECT_EQ(isolation().Load(Config(), 1, Config().base_path + "/1").status(),
            InternalError("Stub process 'm' is not healthy. It exited with code 0"));
  isolation_ = Make({"/nowhere"});
  EXPECT_THAT(isolation().Load(Config(), 1, Config().base_path + "/1").status().message(),
              testing::HasSubstr("cannot start the program '/nowhere'"));
}

// A worker that breaks the rules is ended, and its executions fail.
class FaultyWorkerTest : public OpenVinoIsolationTest,
                         public testing::WithParamInterface<std::pair<const char*, const char*>> {};

TEST_P(FaultyWorkerTest, CostsItsRequestsAndIsReplaced) {
  const auto& [fault, why] = GetParam();
  isolation_ = Make({test_places::kNativeWorker, fault});
  auto config = std::make_shared<inference::ModelConfig>();
  config->set_name("m");
  config->set_backend("openvino");
  NormalizeConfig(*config);
  auto model = isolation().Create(Location(*config), config);
  ASSERT_TRUE(model.ok()) << model.status();
  Answers answers;
  ASSERT_TRUE((*model)->Start(answers, [](const std::string&) {}).ok());
  (*model)->instances().at(0)->Execute(ExecutionOf({Floats("b", {4}, {1, 2, 3, 4})}));
  EXPECT_EQ(answers.Next().status,
            InternalError("Stub process 'm' is not healthy. It was ended " + std::string(why)));
  answers.AwaitAvailability({false, true});
  EXPECT_TRUE((*model)->readiness().ready);
  (*model)->Stop(SteadyNowNs() + 10 * kSecond);
}

INSTANTIATE_TEST_SUITE_P(
    Faults, FaultyWorkerTest,
    testing::Values(std::pair("death", "by signal 6 (Aborted)"),
                    std::pair("another-execution", "because the worker returned from an unknown execution"),
                    std::pair("too-many-responses", "because the worker sent the wrong number of responses"),
                    std::pair("size", "because the worker sent a tensor whose size does not match its shape"),
                    std::pair("type", "because the worker sent a tensor without a type"),
                    std::pair("segment", "because a message names unknown segment 12"),
                    std::pair("not-lent", "because the worker returned memory that was not lent to it"),
                    std::pair("release", "because the worker freed memory that was not lent to it"),
                    std::pair("call", "because the worker sent a malformed message"),
                    std::pair("ask", "because the worker sent a malformed message"),
                    std::pair("nonsense", "because the worker sent a malformed message")),
    [](const auto& info) {
      std::string name = info.param.first;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

TEST_F(OpenVinoIsolationTest, AnAnswerThatCannotBeReadIsNoModel) {
  isolation_ = Make({test_places::kNativeWorker, "answer"});
  EXPECT_EQ(isolation().Load(Config(), 1, Config().base_path + "/1").status(),
            InvalidArgumentError("the native worker sent a malformed answer"));
}

TEST_F(OpenVinoIsolationTest, AStopAtItsDeadlineEndsWhatTheWorkerHas) {
  isolation_ = Make({test_places::kNativeWorker, "silence"});
  auto config = std::make_shared<inference::ModelConfig>();
  config->set_name("m");
  config->set_backend("openvino");
  NormalizeConfig(*config);
  auto model = isolation().Create(Location(*config), config);
  ASSERT_TRUE(model.ok()) << model.status();
  Answers answers;
  ASSERT_TRUE((*model)->Start(answers, [](const std::string&) {}).ok());
  (*model)->instances().at(0)->Execute(ExecutionOf({Floats("b", {4}, {1, 2, 3, 4})}));
  (*model)->Stop(SteadyNowNs());
  answers.AwaitEnd();
}

}  // namespace
}  // namespace braid
