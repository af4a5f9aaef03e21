// FakeServable: a servable for tests of the protocols. It echoes the inputs of every request, at once or on
// demand.
//
//   Catalog catalog;
//   auto model = std::make_shared<FakeServable>(FakeServable::EchoInfo("echo"));
//   catalog.Publish(model);
//   model->Hold();                 // requests wait from now on
//   ... send two requests ...
//   model->WaitForHeld(2);
//   model->Release(1);             // the second one is answered, on this thread
//   model->ReleaseAll();
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "serving/request_check.h"
#include "serving/servable.h"

namespace braid {

class FakeServable final : public Servable {
 public:
  // Answers a request; by default Answer(), which echoes its inputs.
  using Responder = std::function<void(std::unique_ptr<InferenceRequest>)>;

  explicit FakeServable(ServableInfo info) : Servable(std::move(info)) {}
  // A test that holds requests must answer them before the servable is destroyed.
  ~FakeServable() override { ReleaseAll(); }

  // One input INPUT0 of any length, and the output OUTPUT0 of the same type.
  static ServableInfo EchoInfo(std::string name, DataType type = DataType::kFp32, int64_t version = 1) {
    ServableInfo info;
    info.name = std::move(name);
    info.version = version;
    info.platform = "fake";
    info.inputs.push_back(TensorSpec{.name = "INPUT0", .type = type, .shape = {-1}, .labels = {}});
    info.outputs.push_back(TensorSpec{.name = "OUTPUT0", .type = type, .shape = {-1}, .labels = {}});
    return info;
  }

  // Replaces the response. REQUIRES: no request is running.
  void set_responder(Responder responder) { responder_ = std::move(responder); }
  // Whether to call CheckRequest(). Without it a test sees the protocol's request unchanged.
  void set_check(bool check) { check_ = check; }
  void set_readiness(Readiness readiness) {
    std::lock_guard lock(mutex_);
    readiness_ = std::move(readiness);
  }

  // From now on requests are held until they are released.
  void Hold() {
    std::lock_guard lock(mutex_);
    holding_ = true;
  }
  size_t held() const {
    std::lock_guard lock(mutex_);
    return held_.size();
  }
  // Blocks until at least `count` requests are held.
  void WaitForHeld(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return held_.size() >= count; });
  }
  // Blocks until at least `count` held requests were cancelled by their client.
  void WaitForCancelled(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return cancelled_ >= count; });
  }
  // Returns the oldest held request, or the one at `index`. REQUIRES: index < held().
  std::unique_ptr<InferenceRequest> Take(size_t index = 0) {
    std::unique_ptr<InferenceRequest> request;
    {
      std::lock_guard lock(mutex_);
      BRAID_CHECK(index < held_.size());
      request = std::move(held_[index]);
      held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(index));
    }
    if (request->cancellation) request->cancellation->ClearListener();
    return request;
  }
  // Answers the request at `index`.
  void Release(size_t index = 0) { Respond(Take(index)); }
  // Answers all requests in order, and holds no more.
  void ReleaseAll() {
    while (true) {
      {
        std::lock_guard lock(mutex_);
        if (held_.empty()) {
          holding_ = false;
          return;
        }
      }
      Release(0);
    }
  }

  // Returns the inputs as outputs: INPUTx becomes OUTPUTx, other names stay.
  static InferenceResponse Echo(const InferenceRequest& request, const ServableInfo& info) {
    InferenceResponse response;
    response.model_name = info.name;
    response.model_version = info.version;
    for (const Tensor& input : request.inputs) {
      Tensor output = input;
      if (output.name.rfind("INPUT", 0) == 0) output.name = "OUTPUT" + output.name.substr(5);
      response.outputs.push_back(std::move(output));
    }
    return response;
  }
  // Records the statistics of one execution and answers with Echo().
  void Answer(std::unique_ptr<InferenceRequest> request) {
    const int64_t now = SteadyNowNs();
    const ExecutionTimes times{now, now, now, now};
    statistics_.RecordExecution(request->batch_size, times);
    statistics_.RecordSuccess(request->batch_size, request->start_ns, now, times);
    InferenceResponse response = Echo(*request, info_);
    request->Respond(std::move(response), true);
  }

  BufferAllocator& input_allocator() override { return allocator_; }

  void Infer(std::unique_ptr<InferenceRequest> request) override {
    if (check_) {
      Status status = CheckRequest(info_, *request);
      if (!status.ok()) {
        request->Refuse(std::move(status));
        return;
      }
    }
    std::shared_ptr<Cancellation> cancellation = request->cancellation;
    {
      std::lock_guard lock(mutex_);
      if (holding_) {
        held_.push_back(std::move(request));
        changed_.notify_all();
      }
    }
    if (request) {
      Respond(std::move(request));
    } else if (cancellation) {
      cancellation->SetListener([this] {
        std::lock_guard lock(mutex_);
        ++cancelled_;
        changed_.notify_all();
      });
    }
  }

  Readiness readiness() const override {
    std::lock_guard lock(mutex_);
    return readiness_;
  }
  int64_t pending_requests() const override { return static_cast<int64_t>(held()); }
  void Stop(int64_t) override { ReleaseAll(); }

 private:
  void Respond(std::unique_ptr<InferenceRequest> request) {
    if (responder_) {
      responder_(std::move(request));
    } else {
      Answer(std::move(request));
    }
  }

  HeapAllocator allocator_;
  Responder responder_;
  bool check_ = true;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool holding_ = false;                                // guarded by mutex_
  std::deque<std::unique_ptr<InferenceRequest>> held_;  // guarded by mutex_
  size_t cancelled_ = 0;                                // guarded by mutex_
  Readiness readiness_;                                 // guarded by mutex_
};

}  // namespace braid
