// Fixture for tests of served graphs: graphs by their text, fake servables behind them, requests and streams
// whose responses are kept, and calculators that do as the test says.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/elastic_threads.h"
#include "base/temporary_folder.h"
#include "mediapipe_graph/graph_message.h"
#include "mediapipe_graph/graph_packets.h"
#include "mediapipe_graph/graph_servable.h"
#include "mediapipe_graph/ovms_calculators.h"
#include "pipeline/testing/fake_step.h"
#include "scheduling/testing/manual_timers.h"

namespace braid {

// The time that a test waits for other threads; then it fails.
inline constexpr std::chrono::seconds kPatience{20};

// Keeps the responses of one request; any thread.
class KeptResponses final : public ResponseSink {
 public:
  void Respond(std::optional<InferenceResponse> response, bool final) override {
    std::lock_guard lock(mutex_);
    BRAID_CHECK(!ended_);
    if (response) responses_.push_back(std::move(*response));
    ended_ = final;
    changed_.notify_all();
  }
  // Waits for the single response. REQUIRES: the request ends.
  InferenceResponse& Wait() {
    std::unique_lock lock(mutex_);
    const bool ended = changed_.wait_for(lock, kPatience, [this] { return ended_; });
    BRAID_CHECK(ended && responses_.size() == 1);
    return responses_[0];
  }
  bool ended() const {
    std::lock_guard lock(mutex_);
    return ended_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;                        // guarded by mutex_
  std::vector<InferenceResponse> responses_;  // guarded by mutex_
};

// Keeps the events of a stream; any thread.
class KeptStream final : public StreamSink {
 public:
  struct Said {
    InferenceResponse response;
    std::string id;
  };
  void Respond(InferenceResponse response, const std::string& request_id) override {
    std::lock_guard lock(mutex_);
    BRAID_CHECK(!end_);
    said_.push_back({std::move(response), request_id});
    changed_.notify_all();
  }
  void OnWantsInput() override {
    std::lock_guard lock(mutex_);
    BRAID_CHECK(!end_);
    ++wants_;
    changed_.notify_all();
  }
  void End(Status status) override {
    std::lock_guard lock(mutex_);
    BRAID_CHECK(!end_);
    end_ = std::move(status);
    changed_.notify_all();
  }

  // Waits for the end and returns its status. REQUIRES: it ends.
  Status WaitEnd() {
    std::unique_lock lock(mutex_);
    BRAID_CHECK(changed_.wait_for(lock, kPatience, [this] { return end_.has_value(); }));
    return *end_;
  }
  // REQUIRES: that number comes.
  void WaitFor(size_t count) {
    std::unique_lock lock(mutex_);
    BRAID_CHECK(changed_.wait_for(lock, kPatience, [&] { return said_.size() >= count; }));
  }
  bool ended() const {
    std::lock_guard lock(mutex_);
    return end_.has_value();
  }
  size_t size() const {
    std::lock_guard lock(mutex_);
    return said_.size();
  }
  int wants() const {
    std::lock_guard lock(mutex_);
    return wants_;
  }
  // Returns "{output}@{time}={values} id" of each response.
  std::vector<std::string> Texts() const {
    std::lock_guard lock(mutex_);
    std::vector<std::string> texts;
    for (const Said& said : said_) {
      const Tensor& output = said.response.outputs.at(0);
      std::string text = output.name;
      text.append("@").append(std::to_string(TimeOf(said.response))).append("=");
      for (const int32_t value : Int32Values(output)) text.append(std::to_string(value)).append(" ");
      texts.push_back(text.append(said.id));
    }
    return texts;
  }
  static int64_t TimeOf(const InferenceResponse& response) {
    for (const auto& [name, value] : response.parameters) {
      if (name == kTimestampParameter) return std::get<int64_t>(value);
    }
    return -1;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // All guarded by mutex_.
  std::vector<Said> said_;
  std::optional<Status> end_;
  int wants_ = 0;
};

// A calculator whose Process() is a function of the test, for one test at a time. Streams carry OvTensor.
class TestCalculator final : public graph::Calculator {
 public:
  inline static std::function<Status(graph::Context&)> process;
  inline static std::function<void()> cancel;

  static Status FillContract(graph::Contract& contract) {
    for (int i = 0; i < contract.inputs().size(); ++i) contract.SetInput(i, graph::PortType::Of<OvTensor>());
    for (int i = 0; i < contract.outputs().size(); ++i) {
      contract.SetOutput(i, graph::PortType::Of<OvTensor>());
    }
    for (int i = 0; i < contract.input_side_packets().size(); ++i) {
      contract.SetInputSidePacket(i, graph::PortType::Any());
    }
    contract.SetQuick();
    return OkStatus();
  }
  Status Process(graph::Context& context) override { return process(context); }
  void Cancel() override {
    if (cancel) cancel();
  }
};

// Passes each input on to the output of the same number.
class PassCalculator final : public graph::Calculator {
 public:
  static Status FillContract(graph::Contract& contract) {
    for (int i = 0; i < contract.inputs().size(); ++i) {
      contract.SetInput(i, graph::PortType::Any());
      contract.SetOutput(i, graph::PortType::SameAsInput(i));
    }
    contract.SetTimestampOffset(0);
    contract.SetQuick();
    return OkStatus();
  }
  Status Process(graph::Context& context) override {
    for (int i = 0; i < context.contract().inputs().size(); ++i) {
      if (!context.Input(i).empty()) context.Output(i, context.Input(i));
    }
    return OkStatus();
  }
};

// Answers a REQUEST with its own tensors and parameters, and its id as a parameter.
class MessageCalculator final : public graph::Calculator {
 public:
  static Status FillContract(graph::Contract& contract) {
    contract.SetInput(0, graph::PortType::Of<GraphRequest>());
    contract.SetOutput(0, graph::PortType::Of<GraphResponse>());
    return OkStatus();
  }
  Status Process(graph::Context& context) override {
    const auto& request = context.Input(0).Get<GraphRequest>();
    GraphResponse response{request.parameters, request.inputs};
    response.parameters.emplace_back("id", request.id);
    context.Output(0, graph::Packet::Of(std::move(response), context.input_timestamp()));
    return OkStatus();
  }
};

// Keeps the deferrals of its TestCalculator until the test finishes them.
class HeldCalls {
 public:
  HeldCalls() {
    TestCalculator::process = [this](graph::Context& context) {
      std::lock_guard lock(mutex_);
      calls_.emplace_back(&context, context.Defer());
      changed_.notify_all();
      return OkStatus();
    };
    TestCalculator::cancel = [this] {
      {
        std::lock_guard lock(mutex_);
        ++cancelled_;
      }
      Finish(CancelledError("was cancelled"));
    };
  }
  ~HeldCalls() {
    TestCalculator::process = nullptr;
    TestCalculator::cancel = nullptr;
  }
  void WaitFor(size_t count) {
    std::unique_lock lock(mutex_);
    BRAID_CHECK(changed_.wait_for(lock, kPatience, [&] { return calls_.size() >= count; }));
  }
  size_t size() const {
    std::lock_guard lock(mutex_);
    return calls_.size();
  }
  int cancelled() const {
    std::lock_guard lock(mutex_);
    return cancelled_;
  }
  // Ends the oldest call: passes its input on, or fails with an error.
  void Finish(Status status = OkStatus()) {
    std::optional<std::pair<graph::Context*, graph::Deferral>> call;
    {
      std::lock_guard lock(mutex_);
      if (calls_.empty()) return;
      call = std::move(calls_.front());
      calls_.erase(calls_.begin());
    }
    if (status.ok()) call->first->Output(0, call->first->Input(0));
    call->second.Finish(std::move(status));
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::vector<std::pair<graph::Context*, graph::Deferral>> calls_;
  int cancelled_ = 0;
};

// A clock that the test moves, for several threads. Callbacks must not call it.
class LockedTimers final : public Timers {
 public:
  int64_t NowNs() const override {
    std::lock_guard lock(mutex_);
    return timers_.NowNs();
  }
  TimerId At(int64_t deadline_ns, std::function<void()> callback) override {
    std::lock_guard lock(mutex_);
    return timers_.At(deadline_ns, std::move(callback));
  }
  bool Withdraw(TimerId id) override {
    std::lock_guard lock(mutex_);
    return timers_.Withdraw(id);
  }
  void Cancel(TimerId id) override { Withdraw(id); }
  void Advance(int64_t duration_ns) {
    std::lock_guard lock(mutex_);
    timers_.Advance(duration_ns);
  }

 private:
  mutable std::mutex mutex_;
  ManualTimers timers_;  // guarded by mutex_
};

class GraphFixture : public ::testing::Test {
 protected:
  GraphFixture() {
    AddOvmsCalculators(*registry_);
    registry_->Add<PassCalculator>("PassThroughCalculator");
    registry_->Add<TestCalculator>("TestCalculator");
    registry_->Add<MessageCalculator>("MessageCalculator");
  }
  // Runs before the tests' own members are destroyed.
  void TearDown() override {
    for (const auto& graph : served_) {
      graph->gate().Close();
      graph->Stop(SteadyNowNs() + std::chrono::nanoseconds(kPatience).count());
      EXPECT_EQ(graph->runs(), 0U);
    }
    TestCalculator::process = nullptr;
  }

  static constexpr const char* kPass = R"(
    input_stream: "OVTENSOR:in" output_stream: "OVTENSOR:out"
    node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" })";
  // One TestCalculator between "in" and "out".
  static constexpr const char* kTest = R"(
    input_stream: "OVTENSOR:in" output_stream: "OVTENSOR:out"
    node { name: "test" calculator: "TestCalculator" input_stream: "in" output_stream: "out" })";

  Result<std::shared_ptr<GraphServable>> Make(const std::string& pbtxt, const std::string& name = "g") {
    OvmsGraphConfig config;
    config.name = name;
    config.base_path = folder_->path() + "/";
    config.graph_path = folder_->path() + "/" + name + ".pbtxt";
    std::ofstream(config.graph_path) << pbtxt;
    return GraphServable::Create(config, Deps());
  }
  GraphDeps Deps() {
    GraphDeps deps{catalog_, registry_, timers_, threads_};
    deps.cores = 8;
    deps.no_queue = no_queue_;
    deps.start_python = start_python_;
    return deps;
  }
  std::shared_ptr<GraphServable> Serve(const std::string& pbtxt, const std::string& name = "g") {
    auto made = Make(pbtxt, name);
    EXPECT_TRUE(made.ok()) << made.status();
    catalog_.Publish(*made);
    served_.push_back(*made);
    return *made;
  }
  // Adds a servable that answers as the test says.
  std::shared_ptr<FakeStep> AddStep(const std::string& name, FakeStep::Behaviour behaviour,
                                    const std::vector<std::string>& inputs = {"IN"},
                                    const std::vector<std::string>& outputs = {"OUT"},
                                    bool decoupled = false) {
    std::vector<TensorSpec> in;
    std::vector<TensorSpec> out;
    for (const auto& input : inputs) in.push_back(Spec(input));
    for (const auto& output : outputs) out.push_back(Spec(output));
    auto step = std::make_shared<FakeStep>(name, std::move(in), std::move(out), decoupled);
    step->set_behaviour(std::move(behaviour));
    catalog_.Publish(step);
    return step;
  }

  static std::unique_ptr<InferenceRequest> Request(const std::shared_ptr<GraphServable>& graph,
                                                   std::vector<Tensor> inputs, Parameters parameters = {}) {
    auto request = std::make_unique<InferenceRequest>();
    request->id = "id";
    request->model_name = graph->info().name;
    request->inputs = std::move(inputs);
    request->parameters = std::move(parameters);
    request->start_ns = SteadyNowNs();
    request->cancellation = std::make_shared<Cancellation>();
    request->servable = ServableHandle::Enter(graph);
    return request;
  }
  // Sends a request and waits for the response.
  static InferenceResponse Ask(const std::shared_ptr<GraphServable>& graph, std::vector<Tensor> inputs,
                               Parameters parameters = {}) {
    KeptResponses kept;
    auto request = Request(graph, std::move(inputs), std::move(parameters));
    request->sink = &kept;
    graph->Infer(std::move(request));
    return std::move(kept.Wait());
  }
  static Status AskStatus(const std::shared_ptr<GraphServable>& graph, std::vector<Tensor> inputs,
                          Parameters parameters = {}) {
    return Ask(graph, std::move(inputs), std::move(parameters)).status;
  }

  // Opens a stream without a message. REQUIRES: it opens.
  static std::shared_ptr<ServableStream> Open(const std::shared_ptr<GraphServable>& graph, KeptStream& kept,
                                              Parameters parameters = {}) {
    auto first = Request(graph, {}, std::move(parameters));
    auto stream = graph->OpenStream(*first, kept);
    EXPECT_TRUE(stream.ok()) << stream.status();
    return *stream;
  }
  static Status Push(ServableStream& stream, std::vector<Tensor> inputs, const std::string& id = "",
                     Parameters parameters = {}) {
    InferenceRequest message;
    message.id = id;
    message.model_name = std::string("g");
    message.inputs = std::move(inputs);
    message.parameters = std::move(parameters);
    return stream.Push(message);
  }
  static Parameters At(int64_t timestamp) { return {{std::string(kTimestampParameter), timestamp}}; }

  std::shared_ptr<TemporaryFolder> folder_ =
      std::move(TemporaryFolder::Create(::testing::TempDir(), "braid-graph-test-")).value();
  Catalog catalog_{Dialect::kOvms};
  std::shared_ptr<graph::CalculatorRegistry> registry_ = std::make_shared<graph::CalculatorRegistry>();
  LockedTimers timers_;
  ElasticThreads threads_{{.name = "test-graph", .most = 4}};
  bool no_queue_ = false;
  decltype(GraphDeps::start_python) start_python_;
  std::vector<std::shared_ptr<GraphServable>> served_;
};

}  // namespace braid
