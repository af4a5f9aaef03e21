// A servable that holds its requests until the test answers them.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "serving/servable.h"

namespace braid {

class HoldingServable final : public Servable {
 public:
  explicit HoldingServable(const std::string& name, bool decoupled = false, int64_t version = 1)
      : Servable(Info(name, decoupled, version)) {}

  BufferAllocator& input_allocator() override { return allocator_; }
  void Infer(std::unique_ptr<InferenceRequest> request) override {
    std::lock_guard lock(mutex_);
    held_.push_back(std::move(request));
  }
  Readiness readiness() const override { return readiness_; }
  void Stop(int64_t) override {}

  size_t held() const {
    std::lock_guard lock(mutex_);
    return held_.size();
  }
  InferenceRequest& front() { return *held_.front(); }
  std::unique_ptr<InferenceRequest> Take() {
    std::lock_guard lock(mutex_);
    auto request = std::move(held_.front());
    held_.pop_front();
    return request;
  }
  // Answers the first request with these outputs.
  void Answer(std::vector<Tensor> outputs = {}) {
    InferenceResponse response;
    response.outputs = std::move(outputs);
    Take()->Respond(std::move(response), true);
  }

  Readiness readiness_;

 private:
  static ServableInfo Info(const std::string& name, bool decoupled, int64_t version) {
    ServableInfo info;
    info.name = name;
    info.version = version;
    info.decoupled = decoupled;
    return info;
  }

  HeapAllocator allocator_;
  mutable std::mutex mutex_;
  std::deque<std::unique_ptr<InferenceRequest>> held_;  // guarded by mutex_
};

}  // namespace braid
