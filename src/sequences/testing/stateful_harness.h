// A StatefulModel whose instances and clock the test controls. The model adds its input to its state and
// answers with the sum: input "A", output "X" and the state "sum" are FP32 [1].
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "model_config.pb.h"
#include "scheduling/testing/fake_backend.h"
#include "scheduling/testing/manual_timers.h"
#include "scheduling/testing/recording_sink.h"
#include "sequences/scheduled_model.h"

namespace braid {

inline Tensor FloatTensor(std::string name, float value) {
  return {std::move(name), DataType::kFp32, Shape(1, 1), CopyToHeap(std::as_bytes(std::span(&value, 1)))};
}

template <class T>
T ValueIn(const std::vector<Tensor>& tensors, std::string_view name) {
  T value{};
  for (const Tensor& tensor : tensors) {
    if (tensor.name != name) continue;
    EXPECT_EQ(tensor.data.size(), sizeof(value));
    std::memcpy(&value, tensor.data.data(), std::min(tensor.data.size(), sizeof(value)));
    return value;
  }
  ADD_FAILURE() << "there is no '" << name << "'";
  return value;
}

// A client of a stateful model, with its answer.
struct StatefulClient {
  std::shared_ptr<RecordingSink> sink = std::make_shared<RecordingSink>();
  std::shared_ptr<Cancellation> cancellation = std::make_shared<Cancellation>();
  bool waits() const { return !sink->ended; }
  std::string error() const { return sink->status().message(); }
  StatusCode code() const { return sink->status().code(); }
  const std::vector<Tensor>& outputs() const { return sink->responses.back().outputs; }
  float sum() const { return ok() ? ValueIn<float>(outputs(), "X") : -1; }
  uint64_t id() const { return ok() ? ValueIn<uint64_t>(outputs(), "sequence_id") : 0; }
  bool ok() const { return sink->ended && sink->responses.size() == 1 && sink->status().ok(); }
};

enum StatefulFlags : unsigned { kMiddle = 0, kStart = 1, kEnd = 2, kBoth = 3 };

class StatefulHarness {
 public:
  ~StatefulHarness() {
    if (!model_) return;
    model_->gate().Close();
    model_->Stop(0);
  }

  void Start(size_t instances, InstancePool::Options options = {}) {
    ServableInfo info;
    info.name = "m";
    info.version = 3;
    info.dialect = Dialect::kOvms;
    info.inputs.emplace_back();
    info.inputs[0].name = "A";
    info.inputs[0].type = DataType::kFp32;
    info.inputs[0].shape = {1};
    info.outputs = info.inputs;
    info.outputs[0].name = "X";
    info.outputs.push_back(info.outputs[0]);
    info.outputs[1].name = "Y";
    info.stateful = stateful_;
    info.stateful->states = {{"sum", DataType::kFp32, {1}}};
    info.sequence_identity = "m/3";
    info.config = std::make_shared<const inference::ModelConfig>();
    auto backend = std::make_unique<FakeBackendModel>(instances);
    backend_ = backend.get();
    for (auto& fake : backend->fakes_) fake->answer_ = Sum;
    auto model = StartModel(std::move(info), std::move(backend), timers_, log_, {}, options);
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *model;
    ASSERT_NE(model_->sequences(), nullptr);
  }

  static InferenceResponse Sum(const InferenceRequest& request) {
    EXPECT_TRUE(request.requested_outputs.empty()) << "the backend gives all there is";
    const bool begins = request.inputs.size() == 1;
    EXPECT_EQ(begins, request.sequence_start);
    const float sum =
        ValueIn<float>(request.inputs, "A") + (begins ? 0 : ValueIn<float>({request.inputs.back()}, "sum"));
    InferenceResponse response;
    response.outputs = {FloatTensor("X", sum), FloatTensor("Y", -sum), FloatTensor("sum", sum)};
    return response;
  }
  static InferenceResponse Fault() {
    InferenceResponse response;
    response.status = InternalError("the backend has failed");
    return response;
  }

  std::unique_ptr<InferenceRequest> Make(StatefulClient& client, CorrelationId id, unsigned flags,
                                         float value = 1) {
    auto request = std::make_unique<InferenceRequest>();
    request->model_name = "m";
    request->correlation_id = std::move(id);
    request->sequence_start = (flags & kStart) != 0;
    request->sequence_end = (flags & kEnd) != 0;
    request->sink = client.sink.get();
    sinks_.push_back(client.sink);
    request->cancellation = client.cancellation;
    request->servable = ServableHandle::Enter(model_);
    request->start_ns = timers_.NowNs();
    request->inputs.push_back(FloatTensor("A", value));
    return request;
  }
  StatefulClient Send(CorrelationId id, unsigned flags = kMiddle, float value = 1) {
    StatefulClient client;
    model_->Infer(Make(client, std::move(id), flags, value));
    return client;
  }

  FakeInstance& instance(size_t index = 0) { return *backend_->fakes_[index]; }
  void Finish(size_t index = 0) { instance(index).Finish(timers_.NowNs()); }
  void Fail(size_t index = 0) {
    FinishWith([](const InferenceRequest&) { return Fault(); }, index);
  }
  void FinishWith(std::function<InferenceResponse(const InferenceRequest&)> answer, size_t index = 0) {
    auto usual = std::exchange(instance(index).answer_, std::move(answer));
    Finish(index);
    instance(index).answer_ = std::move(usual);
  }
  // Sends a request and runs it.
  StatefulClient Ask(CorrelationId id, unsigned flags = kMiddle, float value = 1) {
    StatefulClient client = Send(std::move(id), flags, value);
    if (client.waits()) Finish();
    return client;
  }
  // Returns the id of the running request; 0 if none runs.
  uint64_t Running(size_t index = 0) {
    if (instance(index).inside() == 0) return 0;
    return std::get<uint64_t>(instance(index).running().requests.front()->correlation_id);
  }
  SequenceKeeper& keeper() { return *model_->sequences(); }
  SequenceCounts counts() { return keeper().counts(); }
  StatisticsSnapshot stats() { return model_->statistics().Snapshot(); }
  uint64_t failures(FailureReason reason) { return stats().failures[static_cast<int>(reason)]; }
  // Runs the callbacks that are due on the timers' thread.
  void Tick() { timers_.Run(); }

  StatefulSpec stateful_;
  std::vector<std::shared_ptr<RecordingSink>> sinks_;  // alive while a request may answer
  ManualTimers timers_;
  Logger log_;
  FakeBackendModel* backend_ = nullptr;
  std::shared_ptr<InstancePool> model_;
};

}  // namespace braid
