// A SequenceModel whose instances and clock the test controls, and clients that record their answers.
#pragma once

#include <google/protobuf/text_format.h>
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

struct SequenceClient {
  std::shared_ptr<RecordingSink> sink = std::make_shared<RecordingSink>();
  std::shared_ptr<Cancellation> cancellation = std::make_shared<Cancellation>();
  std::string error() const { return sink->status().message(); }
  StatusCode code() const { return sink->status().code(); }
  bool waits() const { return !sink->ended; }
};

// Flags of a request in its sequence.
enum SequenceFlags : unsigned { kMiddle = 0, kStart = 1, kEnd = 2, kBoth = 3 };

class SequenceHarness {
 public:
  ~SequenceHarness() { Stop(); }

  // Ends the model; another one may then be started.
  void Stop() {
    if (!model_) return;
    model_->gate().Close();
    model_->Stop(0);
    model_.reset();
  }

  // `batching` is the text inside sequence_batching. The model has FP32 input "A" of dims [-1] and output
  // "X".
  void Start(size_t instances, const std::string& batching, int max_batch_size = 4, bool decoupled = false,
             std::vector<Tensor> initial_states = {}, InstancePool::Options options = {}) {
    inference::ModelConfig config;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
        "name: 'm' sequence_batching { max_sequence_idle_microseconds: 1000000 " + batching + " }", &config));
    config.set_max_batch_size(max_batch_size);
    config.mutable_model_transaction_policy()->set_decoupled(decoupled);
    ServableInfo info;
    info.name = "m";
    info.version = 3;
    info.max_batch_size = max_batch_size;
    info.decoupled = decoupled;
    info.inputs = {{"A", DataType::kFp32, max_batch_size > 0 ? Shape{-1, -1} : Shape{-1}, false, false, {}}};
    info.outputs = {{"X", DataType::kFp32, {-1}, false, false, {}}};
    info.initial_states = std::move(initial_states);
    info.config = std::make_shared<const inference::ModelConfig>(config);
    auto backend = std::make_unique<FakeBackendModel>(instances);
    backend_ = backend.get();
    backend_->saves_sequences_ = saves_sequences_;
    auto model = StartModel(std::move(info), std::move(backend), timers_, log_, {}, options);
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *model;
  }

  SequenceClient Send(CorrelationId id, unsigned flags = kMiddle, int64_t columns = 1, int64_t rows = 1) {
    SequenceClient client;
    Send(client, std::move(id), flags, columns, rows);
    return client;
  }
  void Send(SequenceClient& client, CorrelationId id, unsigned flags, int64_t columns = 1, int64_t rows = 1,
            std::string request_id = "", std::vector<std::string> outputs = {}) {
    auto request = std::make_unique<InferenceRequest>();
    request->id = std::move(request_id);
    request->model_name = "m";
    request->correlation_id = std::move(id);
    request->sequence_start = (flags & kStart) != 0;
    request->sequence_end = (flags & kEnd) != 0;
    request->requested_outputs = std::move(outputs);
    request->sink = client.sink.get();
    sinks_.push_back(client.sink);
    request->cancellation = client.cancellation;
    request->servable = ServableHandle::Enter(model_);
    request->start_ns = timers_.NowNs();
    Shape shape = {columns};
    if (model_->info().max_batch_size > 0) shape.insert(shape.begin(), rows);
    request->inputs.push_back(
        {"A", DataType::kFp32, shape, HeapAllocator().Allocate(*ByteSize(DataType::kFp32, shape)).value()});
    model_->Infer(std::move(request));
  }

  FakeInstance& instance(size_t index = 0) { return *backend_->fakes_[index]; }
  void Finish(size_t index = 0, const InferenceResponse& response = {}) {
    instance(index).Finish(timers_.NowNs(), 1'000'000, response);
  }
  // The ids of the running execution, "-" for padding: "1,-,3".
  std::string Running(size_t index = 0) {
    if (instance(index).inside() == 0) return "none";
    std::string text;
    for (const auto& request : instance(index).running().requests) {
      if (!text.empty()) text += ",";
      const auto* number = std::get_if<uint64_t>(&request->correlation_id);
      if (number == nullptr) {
        text += std::get<std::string>(request->correlation_id);
      } else {
        text += *number == 0 ? "-" : std::to_string(*number);
      }
    }
    return text;
  }
  StatisticsSnapshot stats() { return model_->statistics().Snapshot(); }
  uint64_t failures(FailureReason reason) { return stats().failures[static_cast<int>(reason)]; }

  bool saves_sequences_ = false;                       // for the next Start()
  std::vector<std::shared_ptr<RecordingSink>> sinks_;  // alive while a request may answer
  ManualTimers timers_;
  Logger log_;
  FakeBackendModel* backend_ = nullptr;
  std::shared_ptr<InstancePool> model_;
};

inline const Tensor* InputOf(const InferenceRequest& request, std::string_view name) {
  for (const Tensor& input : request.inputs) {
    if (input.name == name) return &input;
  }
  return nullptr;
}
template <class T>
T ValueOf(const InferenceRequest& request, std::string_view name) {
  T value{};
  const Tensor* input = InputOf(request, name);
  EXPECT_NE(input, nullptr) << name;
  if (input == nullptr) return value;
  EXPECT_EQ(input->data.size(), sizeof(value));
  std::memcpy(&value, input->data.data(), sizeof(value));
  return value;
}

}  // namespace braid
