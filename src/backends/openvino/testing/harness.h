// Test models, and a fixture that runs them: a backend, timers, and a folder that is deleted with the test.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <openvino/openvino.hpp>
#include <openvino/opsets/opset13.hpp>

#include "backends/openvino/openvino_backend.h"
#include "base/clock.h"
#include "base/temporary_folder.h"
#include "sequences/scheduled_model.h"

namespace braid {

// Takes the response to one request; the test's thread waits for it.
class WaitingSink final : public ResponseSink {
 public:
  void Respond(std::optional<InferenceResponse> response, bool final) override {
    std::lock_guard lock(mutex_);
    if (response) response_ = std::move(*response);
    ended_ = final;
    thread_ = std::this_thread::get_id();
    changed_.notify_all();
  }
  InferenceResponse Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ended_; });
    return std::move(response_);
  }
  // The thread that answered, after Wait().
  std::thread::id thread() const { return thread_; }

 private:
  std::thread::id thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  InferenceResponse response_;
  bool ended_ = false;
};

// Passes each response to the sink of its request.
class PassingListener final : public ExecutionListener {
 public:
  void OnExecuted(Instance&, int64_t, size_t, const ExecutionTimes&) override {}
  void OnResponse(Instance&, InferenceRequest& request, std::optional<InferenceResponse> response, bool final,
                  const ExecutionTimes&) override {
    request.Respond(std::move(response), final);
  }
  void OnRescheduled(Instance&, std::unique_ptr<InferenceRequest>) override {}
  void OnUnstarted(Instance&, std::vector<std::unique_ptr<Execution>>) override {}
  void OnAvailability(Instance&, bool) override {}
};

template <class T>
Tensor MakeTensor(const std::string& name, DataType type, const Shape& shape, const std::vector<T>& values) {
  HeapAllocator heap;
  Tensor tensor{name, type, shape, {}};
  if (values.empty()) return tensor;
  tensor.data = heap.Allocate(values.size() * sizeof(T)).value();
  std::memcpy(tensor.data.mutable_data(), values.data(), tensor.data.size());
  return tensor;
}
inline Tensor Floats(const std::string& name, const Shape& shape, const std::vector<float>& values) {
  return MakeTensor(name, DataType::kFp32, shape, values);
}
// Encodes strings in their wire format.
inline Tensor Strings(const std::string& name, const Shape& shape, const std::vector<std::string>& values) {
  std::vector<char> bytes;
  for (const std::string& value : values) {
    const auto length = static_cast<uint32_t>(value.size());
    bytes.insert(bytes.end(), reinterpret_cast<const char*>(&length),
                 reinterpret_cast<const char*>(&length) + 4);
    bytes.insert(bytes.end(), value.begin(), value.end());
  }
  return MakeTensor(name, DataType::kBytes, shape, bytes);
}

template <class T>
std::vector<T> ValuesOf(const Tensor& tensor) {
  std::vector<T> values(tensor.data.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}
inline std::vector<int64_t> Dims(const Shape& shape) { return {shape.begin(), shape.end()}; }

// Builds models of one chain of operations.
namespace models {

using ov::opset13::Parameter;

inline std::shared_ptr<Parameter> Input(const std::string& name, const ov::element::Type& type,
                                        const ov::PartialShape& shape) {
  auto parameter = std::make_shared<Parameter>(type, shape);
  parameter->set_friendly_name(name);
  parameter->output(0).set_names({name});
  return parameter;
}
inline ov::Output<ov::Node> Named(const std::string& name, ov::Output<ov::Node> output) {
  output.set_names({name});
  return output;
}
inline ov::Output<ov::Node> Number(const ov::element::Type& type, double value) {
  return ov::opset13::Constant::create(type, {}, {value})->output(0);
}
// a = b * 2 + 1, of any type of number.
inline std::shared_ptr<ov::Model> Affine(const ov::PartialShape& shape,
                                         const ov::element::Type& type = ov::element::f32) {
  auto b = Input("b", type, shape);
  auto doubled = std::make_shared<ov::opset13::Multiply>(b, Number(type, 2));
  auto a = std::make_shared<ov::opset13::Add>(doubled, Number(type, 1));
  return std::make_shared<ov::Model>(ov::OutputVector{Named("a", a->output(0))}, ov::ParameterVector{b},
                                     "affine");
}
// out = in, of any type.
inline std::shared_ptr<ov::Model> Same(const ov::PartialShape& shape, const ov::element::Type& type) {
  auto in = Input("in", type, shape);
  auto target = ov::opset13::Constant::create(ov::element::i64, {1}, {-1});
  auto flat = std::make_shared<ov::opset13::Reshape>(in, target, false);
  return std::make_shared<ov::Model>(ov::OutputVector{Named("out", flat->output(0))}, ov::ParameterVector{in},
                                     "same");
}

}  // namespace models

class OpenVinoHarness : public ::testing::Test {
 protected:
  OpenVinoHarness()
      : folder_(TemporaryFolder::Create(::testing::TempDir(), "openvino-test-").value()),
        backend_(OpenVinoBackend::Create({}, log_).value()) {}

  // The folder of version 1 of a model.
  std::string VersionPath(const std::string& model = "m") {
    const std::string path = folder_->path() + "/" + model + "/1";
    std::filesystem::create_directories(path);
    return path;
  }
  void Save(const std::shared_ptr<ov::Model>& model, const std::string& name = "m",
            const std::string& file = "model.xml") {
    ov::save_model(model, VersionPath(name) + "/" + file, /*compress_to_fp16=*/false);
  }
  void Write(const std::string& path, std::string_view text) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }
  OvmsModelConfig Config(const std::string& name = "m") {
    OvmsModelConfig config;
    config.name = name;
    config.base_path = folder_->path() + "/" + name;
    return config;
  }
  Result<OpenVinoBackend::LoadedModel> Load(const OvmsModelConfig& config) {
    return backend_->Load(config, 1, config.base_path + "/1");
  }
  std::string LoadError(const OvmsModelConfig& config) {
    auto loaded = Load(config);
    return loaded.ok() ? "no error" : loaded.status().message();
  }
  std::shared_ptr<Servable> Start(const OvmsModelConfig& config) {
    auto loaded = Load(config);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    if (!loaded.ok()) return nullptr;
    auto model = StartModel(std::move(loaded->info), std::move(loaded->model), timers_, log_,
                            [](const std::string&) {});
    EXPECT_TRUE(model.ok()) << model.status();
    return model.ok() ? *model : nullptr;
  }

  static void Send(const std::shared_ptr<Servable>& model, std::vector<Tensor> inputs, ResponseSink& sink) {
    auto request = std::make_unique<InferenceRequest>();
    request->model_name = model->info().name;
    request->inputs = std::move(inputs);
    request->sink = &sink;
    request->start_ns = SteadyNowNs();
    request->servable = ServableHandle::Enter(model);
    model->Infer(std::move(request));
  }
  static InferenceResponse Infer(const std::shared_ptr<Servable>& model, std::vector<Tensor> inputs) {
    WaitingSink sink;
    Send(model, std::move(inputs), sink);
    return sink.Wait();
  }
  static void Stop(const std::shared_ptr<Servable>& model) {
    model->gate().Close();
    model->Stop(SteadyNowNs() + 10'000'000'000);
  }

  Logger log_;
  TimerService timers_;
  std::shared_ptr<TemporaryFolder> folder_;
  std::unique_ptr<OpenVinoBackend> backend_;
};

}  // namespace braid
