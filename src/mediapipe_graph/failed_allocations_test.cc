// A graph's stream ends with an error after any failed allocation.
#include <gtest/gtest.h>

#include "base/testing/failing_allocation.h"
#include "mediapipe_graph/testing/graph_fixture.h"

namespace braid {
namespace {

// Keeps a stream's final status and allocates nothing.
class EndOfStream final : public StreamSink {
 public:
  void Respond(InferenceResponse, const std::string&) override {}
  void OnWantsInput() override {}
  void End(Status status) override {
    std::lock_guard lock(mutex_);
    BRAID_CHECK(!code_);
    code_ = status.code();
    changed_.notify_all();
  }
  // Returns nothing if the stream does not end.
  std::optional<StatusCode> Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kPatience, [this] { return code_.has_value(); });
    return code_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<StatusCode> code_;
};

class FailedAllocations : public GraphFixture {
 protected:
  // Fails `count` allocations in a row, at every place of a stream with one message. As in a protocol, a
  // message that is refused for lack of memory ends the stream.
  void TryAll(const std::shared_ptr<GraphServable>& graph, int count) {
    int failed = count;
    for (int before = 0; failed == count; ++before) {
      ASSERT_LT(before, 1000);
      EndOfStream end;
      InferenceRequest first;
      first.model_name = "g";
      first.servable = ServableHandle::Enter(graph);
      InferenceRequest message;
      message.model_name = "g";
      message.inputs.push_back(Int32Tensor("in", {1}));
      bool cancelled = false;
      std::shared_ptr<ServableStream> stream;
      FailingAllocation failing(before, count);
      (void)Guarded([&]() -> Status {
        BRAID_ASSIGN_OR_RETURN(stream, graph->OpenStream(first, end));
        return OkStatus();
      });
      if (stream != nullptr) {
        cancelled = !Guarded([&] { return stream->Push(message); }).ok();
        const RetryingAllocation retrying;
        cancelled ? stream->Cancel() : stream->CloseInputs();
      }
      const bool opened = stream != nullptr;
      const auto code = opened ? end.Wait() : StatusCode::kOk;
      failed = failing.Stop();
      ASSERT_TRUE(code.has_value()) << "no end, allocation " << before;
      EXPECT_TRUE(cancelled || code != StatusCode::kCancelled) << "allocation " << before;
      stream.reset();
      first.servable.reset();
      ASSERT_EQ(graph->runs(), 0u) << "allocation " << before;
      ASSERT_EQ(graph->gate().inside(), 0u) << "allocation " << before;
    }
  }
};

TEST_F(FailedAllocations, EveryStreamEnds) {
  TestCalculator::process = [](graph::Context& context) -> Status {
    context.Output(0, context.Input(0));
    return OkStatus();
  };
  const auto graph = Serve(kTest);
  for (const int count : {1, 2, 3}) TryAll(graph, count);
}

TEST_F(FailedAllocations, EveryStreamOfANodeThatGivesUpEnds) {
  TestCalculator::process = [](graph::Context& context) -> Status {
    const graph::Deferral given_up = context.Defer();
    const auto memory = std::make_unique<int>(1);
    return OkStatus();
  };
  const auto graph = Serve(kTest);
  for (const int count : {1, 2, 3}) TryAll(graph, count);
}

}  // namespace
}  // namespace braid
