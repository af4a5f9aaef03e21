// Fixture for tests of ensembles: a catalog of fake steps, ensembles from the text of their configuration,
// and requests whose responses are kept.
#pragma once

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/testing/places.h"
#include "model_config.pb.h"
#include "pipeline/ensemble.h"
#include "pipeline/testing/fake_step.h"

namespace braid {

// Keeps the responses of one request; any thread.
class KeepingSink final : public ResponseSink {
 public:
  void Respond(std::optional<InferenceResponse> response, bool final) override {
    std::lock_guard lock(mutex_);
    BRAID_CHECK(!ended_);
    if (response) responses_.push_back(std::move(*response));
    ended_ = final;
    changed_.notify_all();
  }
  void Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ended_; });
  }
  bool ended() const {
    std::lock_guard lock(mutex_);
    return ended_;
  }
  // REQUIRES: no other thread responds any more.
  std::vector<InferenceResponse>& responses() { return responses_; }
  Status status() const { return responses_.empty() ? OkStatus() : responses_.back().status; }
  // Returns the values of output `name` of each response.
  std::vector<std::vector<int32_t>> Values(const std::string& name) const {
    std::vector<std::vector<int32_t>> values;
    for (const auto& response : responses_) {
      for (const Tensor& output : response.outputs) {
        if (output.name == name) values.push_back(Int32Values(output));
      }
    }
    return values;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;                        // guarded by mutex_
  std::vector<InferenceResponse> responses_;  // guarded by mutex_
};

class EnsembleFixture : public ::testing::Test {
 protected:
  using Behaviour = FakeStep::Behaviour;

  // Adds a step with inputs IN..., outputs OUT..., all INT32 vectors.
  std::shared_ptr<FakeStep> AddStep(const std::string& name, Behaviour behaviour = {}, bool decoupled = false,
                                    const std::vector<std::string>& inputs = {"IN"},
                                    const std::vector<std::string>& outputs = {"OUT"}) {
    std::vector<TensorSpec> in;
    std::vector<TensorSpec> out;
    for (const auto& input : inputs) in.push_back(Spec(input));
    for (const auto& output : outputs) out.push_back(Spec(output));
    auto step = std::make_shared<FakeStep>(name, std::move(in), std::move(out), decoupled);
    step->set_behaviour(std::move(behaviour));
    catalog_.Publish(step);
    return step;
  }

  // OUT = IN + number, at once.
  static Behaviour Plus(int32_t number) {
    return [number](std::unique_ptr<InferenceRequest> request) { AnswerPlus(*request, number); };
  }
  static void AnswerPlus(InferenceRequest& request, int32_t number) {
    std::vector<int32_t> values = Int32Values(request.inputs[0]);
    for (int32_t& value : values) value += number;
    request.Respond(FakeStep::Response({Int32Tensor("OUT", values)}), true);
  }
  // OUT = IN, by its handle, at once.
  static Behaviour Identity() {
    return [](std::unique_ptr<InferenceRequest> request) {
      Tensor output = std::move(request->inputs[0]);
      output.name = "OUT";
      request->Respond(FakeStep::Response({std::move(output)}), true);
    };
  }

  // Makes an ensemble "e" with inputs X... and the given outputs, all INT32 vectors.
  Result<std::shared_ptr<Servable>> Make(const std::string& steps,
                                         const std::vector<std::string>& outputs = {"Y"},
                                         const std::vector<std::string>& inputs = {"X"}) {
    return MakeEnsemble(EnsembleInfo(steps, outputs, inputs), deps_);
  }
  static ServableInfo EnsembleInfo(const std::string& steps, const std::vector<std::string>& outputs = {"Y"},
                                   const std::vector<std::string>& inputs = {"X"}) {
    inference::ModelConfig config;
    config.set_name("e");
    config.set_platform("ensemble");
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(steps, config.mutable_ensemble_scheduling()));
    ServableInfo info;
    info.name = "e";
    for (const auto& input : inputs) info.inputs.push_back(Spec(input));
    for (const auto& output : outputs) {
      info.outputs.push_back(Spec(output));
      config.add_output()->set_name(output);
    }
    info.config = std::make_shared<inference::ModelConfig>(std::move(config));
    return info;
  }
  std::shared_ptr<Servable> Serve(const std::string& steps, const std::vector<std::string>& outputs = {"Y"},
                                  const std::vector<std::string>& inputs = {"X"}) {
    auto made = Make(steps, outputs, inputs);
    EXPECT_TRUE(made.ok()) << made.status();
    catalog_.Publish(*made);
    return *made;
  }

  static std::string StepText(const std::string& model, const std::string& in, const std::string& out) {
    return "step { model_name: '" + model + "' model_version: -1 input_map { key: 'IN' value: '" + in +
           "' } output_map { key: 'OUT' value: '" + out + "' } } ";
  }

  std::unique_ptr<InferenceRequest> Request(const std::shared_ptr<Servable>& servable, ResponseSink& sink,
                                            std::vector<Tensor> inputs) {
    auto request = std::make_unique<InferenceRequest>();
    request->id = "id";
    request->model_name = servable->info().name;
    request->inputs = std::move(inputs);
    request->start_ns = SteadyNowNs();
    request->cancellation = std::make_shared<Cancellation>();
    request->sink = &sink;
    request->servable = ServableHandle::Enter(servable);
    return request;
  }
  // Sends X; returns the request's cancellation.
  std::shared_ptr<Cancellation> Ask(const std::shared_ptr<Servable>& servable, ResponseSink& sink,
                                    const std::vector<int32_t>& x = {1}) {
    auto request = Request(servable, sink, {Int32Tensor("X", x)});
    auto cancellation = request->cancellation;
    servable->Infer(std::move(request));
    return cancellation;
  }

  TimerService timers_;
  CallGraph call_graph_;
  Catalog catalog_;
  ImageDecoder images_{{.codec = std::make_shared<OpenCvCodec>(test_places::kOpenCvLibrary)}};
  const DagDeps deps_{catalog_, timers_, call_graph_, &images_};
};

}  // namespace braid
