// A failed allocation in an instance fails the request that needs it, and no other.
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <new>
#include <openvino/core/except.hpp>
#include <optional>
#include <stdexcept>
#include <string>

#include "backends/openvino/openvino_errors.h"
#include "backends/openvino/openvino_instance.h"
#include "backends/openvino/testing/harness.h"
#include "base/testing/failing_allocation.h"

namespace braid {
namespace {

// Keeps only the status; allocates nothing.
class StatusSink final : public ResponseSink {
 public:
  void Respond(std::optional<InferenceResponse> response, bool final) override {
    std::lock_guard lock(mutex_);
    if (response && !response->status.ok()) code_ = response->status.code();
    ended_ = ended_ || final;
    changed_.notify_all();
  }
  // Returns nullopt when there is no answer.
  std::optional<StatusCode> Wait() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::seconds(10), [this] { return ended_; })) return std::nullopt;
    return code_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  StatusCode code_ = StatusCode::kOk;
  bool ended_ = false;
};

class FailedAllocations : public OpenVinoHarness {
 protected:
  static std::unique_ptr<Execution> Make(std::vector<Tensor> inputs, ResponseSink& sink) {
    auto execution = std::make_unique<Execution>();
    execution->rows = 1;
    auto request = std::make_unique<InferenceRequest>();
    request->inputs = std::move(inputs);
    request->sink = &sink;
    execution->requests.push_back(std::move(request));
    return execution;
  }

  // Lets `count` allocations in a row fail, at every point of a request with `inputs`. The request ends with
  // `code` as usual, or with an out-of-memory error.
  void TryAll(Instance& instance, int count, const std::vector<Tensor>& inputs,
              StatusCode code = StatusCode::kOk) {
    int failed = count;
    for (int before = 0; failed == count; ++before) {
      ASSERT_LT(before, 1000);
      StatusSink sink;
      auto execution = Make(inputs, sink);
      FailingAllocation failing(before, count);
      instance.Execute(std::move(execution));
      const auto told = sink.Wait();
      failed = failing.Stop();
      ASSERT_TRUE(told.has_value()) << "allocation " << before << " and " << count - 1 << " more";
      EXPECT_TRUE(*told == code || *told == StatusCode::kResourceExhausted)
          << "allocation " << before << ": " << static_cast<int>(*told);
      StatusSink next;
      instance.Execute(Make({Floats("b", {1, 2}, {4, 5})}, next));
      ASSERT_EQ(next.Wait(), StatusCode::kOk) << "after allocation " << before;
    }
  }
};

TEST_F(FailedAllocations, EachRequestIsAnsweredAndTheNextOneRuns) {
  for (const ov::PartialShape& shape : {ov::PartialShape{1, 2}, ov::PartialShape{-1, -1}}) {
    Save(models::Affine(shape));
    auto loaded = Load(Config());
    ASSERT_TRUE(loaded.ok());
    PassingListener listener;
    ASSERT_TRUE(loaded->model->Start(listener, [](const std::string&) {}).ok());
    Instance& instance = *loaded->model->instances()[0];
    for (const int count : {1, 2, 3, 4}) {
      TryAll(instance, count, {Floats("b", {1, 2}, {1, 2})});
      TryAll(instance, count, {MakeTensor<int32_t>("b", DataType::kInt32, {1, 2}, {1, 2})},
             StatusCode::kInvalidArgument);
    }
    loaded->model->Stop(SteadyNowNs() + 1'000'000'000);
  }
}

TEST(OpenVinoErrors, AFailedAllocationIsNoFaultOfOpenVino) {
  const auto to_status = [](const std::string& text) { return InternalError("it said: " + text); };
  EXPECT_EQ(Guarded([] { throw std::bad_alloc(); }, to_status), OutOfMemory());
  EXPECT_EQ(Guarded([] { OPENVINO_THROW("std::bad_alloc"); }, to_status), OutOfMemory());
  EXPECT_EQ(Guarded([] { throw std::runtime_error("no"); }, to_status), InternalError("it said: no"));
}

}  // namespace
}  // namespace braid
