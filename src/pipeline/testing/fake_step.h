// A servable for tests of ensembles: answers as the test says, at once or later.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "serving/request_check.h"
#include "serving/servable.h"

namespace braid {

inline TensorSpec Spec(std::string name, DataType type = DataType::kInt32, Shape shape = {-1}) {
  TensorSpec spec;
  spec.name = std::move(name);
  spec.type = type;
  spec.shape = std::move(shape);
  return spec;
}

inline Tensor Int32Tensor(std::string name, const std::vector<int32_t>& values) {
  Tensor tensor;
  tensor.name = std::move(name);
  tensor.type = DataType::kInt32;
  tensor.shape = {static_cast<int64_t>(values.size())};
  tensor.data = CopyToHeap(std::as_bytes(std::span(values)));
  return tensor;
}

inline std::vector<int32_t> Int32Values(const Tensor& tensor) {
  std::vector<int32_t> values(tensor.data.size() / sizeof(int32_t));
  std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

class FakeStep final : public Servable {
 public:
  using Behaviour = std::function<void(std::unique_ptr<InferenceRequest>)>;

  FakeStep(std::string name, std::vector<TensorSpec> inputs, std::vector<TensorSpec> outputs,
           bool decoupled = false, int64_t version = 1)
      : Servable(Describe(std::move(name), std::move(inputs), std::move(outputs), decoupled, version)) {}

  // The step's reaction to a request; by default it keeps it until Take(). Set before the first request.
  void set_behaviour(Behaviour behaviour) { behaviour_ = std::move(behaviour); }
  // Declares that its user code calls other servables. Set before a DAG uses the step.
  void set_makes_calls() { info_.makes_calls = true; }
  // As for Python models on GPUs.
  void set_device_tensors(bool inputs, bool outputs) {
    info_.device_inputs = inputs;
    info_.device_outputs = outputs;
  }
  void set_readiness(Readiness readiness) { readiness_ = std::move(readiness); }

  // Returns the oldest kept request; null if there is none.
  std::unique_ptr<InferenceRequest> Take() {
    std::lock_guard lock(mutex_);
    if (kept_.empty()) return nullptr;
    auto request = std::move(kept_.front());
    kept_.pop_front();
    return request;
  }
  size_t kept() const {
    std::lock_guard lock(mutex_);
    return kept_.size();
  }

  // Makes a response with these outputs.
  static InferenceResponse Response(std::vector<Tensor> outputs) {
    InferenceResponse response;
    response.outputs = std::move(outputs);
    return response;
  }

  BufferAllocator& input_allocator() override { return allocator; }
  void Infer(std::unique_ptr<InferenceRequest> request) override {
    if (Status status = CheckRequest(info_, *request); !status.ok()) {
      request->Fail(std::move(status));
      return;
    }
    if (behaviour_) {
      behaviour_(std::move(request));
      return;
    }
    std::lock_guard lock(mutex_);
    kept_.push_back(std::move(request));
  }
  Readiness readiness() const override { return readiness_; }
  void Stop(int64_t) override {}

  // Counts allocations.
  struct CountingAllocator final : public BufferAllocator {
    Result<Buffer> Allocate(size_t size) override {
      ++allocations;
      if (on_allocate) on_allocate();
      return heap.Allocate(size);
    }
    HeapAllocator heap;
    std::function<void()> on_allocate;
    std::atomic<int> allocations{0};
  } allocator;

 private:
  static ServableInfo Describe(std::string name, std::vector<TensorSpec> inputs,
                               std::vector<TensorSpec> outputs, bool decoupled, int64_t version) {
    ServableInfo info;
    info.name = std::move(name);
    info.version = version;
    info.inputs = std::move(inputs);
    info.outputs = std::move(outputs);
    info.decoupled = decoupled;
    return info;
  }

  Behaviour behaviour_;
  Readiness readiness_;
  mutable std::mutex mutex_;
  std::deque<std::unique_ptr<InferenceRequest>> kept_;  // guarded by mutex_
};

}  // namespace braid
