// Ensembles on real threads: steps that answer from their own threads, streams, faults and clients that
// disconnect. Checks little itself; it exists for the sanitizers.
#include <atomic>
#include <deque>
#include <optional>
#include <random>
#include <thread>

#include "base/thread.h"
#include "pipeline/testing/ensemble_fixture.h"

namespace braid {
namespace {

// Answers on two threads, sometimes with several responses before the last.
class Pool {
 public:
  Pool() {
    for (unsigned i = 0; i < 2; ++i) threads_.push_back(StartThread("brd-fake", [this, i] { Run(i); }));
  }
  ~Pool() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  void Add(std::unique_ptr<InferenceRequest> request, bool many) {
    {
      std::lock_guard lock(mutex_);
      work_.emplace_back(std::move(request), many);
    }
    changed_.notify_one();
  }

 private:
  void Run(unsigned seed) {
    std::mt19937 random(seed);
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stopping_ || !work_.empty(); });
      if (work_.empty()) return;
      auto [request, many] = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      const int32_t value = Int32Values(request->inputs[0])[0];
      if (request->cancelled()) {
        request->Fail(CancelledError("cancelled"));
      } else if (random() % 40 == 0) {
        request->Fail(InternalError("bad luck"));
      } else {
        const unsigned more = many ? random() % 4 : 0;
        for (unsigned i = 0; i < more; ++i)
          request->Respond(FakeStep::Response({Int32Tensor("OUT", {value})}), false);
        request->Respond(FakeStep::Response({Int32Tensor("OUT", {value + 1})}), true);
      }
      request.reset();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<std::unique_ptr<InferenceRequest>, bool>> work_;  // guarded by mutex_
  bool stopping_ = false;                                                // guarded by mutex_
  std::vector<std::thread> threads_;
};

class EnsembleStressTest : public EnsembleFixture {};

TEST_F(EnsembleStressTest, EveryRequestEndsOnce) {
  std::optional<Pool> pool(std::in_place);
  auto plain = [&pool](std::unique_ptr<InferenceRequest> request) { pool->Add(std::move(request), false); };
  auto many = [&pool](std::unique_ptr<InferenceRequest> request) { pool->Add(std::move(request), true); };
  AddStep("a", plain);
  AddStep("b", plain);
  AddStep("stream", many, true);
  AddStep("sync", Plus(1));
  AddStep("join",
          [&pool](std::unique_ptr<InferenceRequest> request) { pool->Add(std::move(request), false); }, false,
          {"A", "B"});
  auto e =
      Serve(StepText("a", "X", "T") + StepText("b", "X", "U") + StepText("stream", "T", "S") +
            StepText("sync", "S", "V") + "max_inflight_requests: 2 " +
            "step { model_name: 'join' input_map { key: 'A' value: 'V' } input_map { key: 'B' value: 'U' } "
            "output_map { key: 'OUT' value: 'Y' } }");
  std::vector<std::thread> clients;
  std::atomic<int> ended{0};
  for (unsigned c = 0; c < 3; ++c) {
    clients.push_back(StartThread("brd-fake", [&, c] {
      std::mt19937 random(100 + c);
      for (int i = 0; i < 300; ++i) {
        KeepingSink sink;
        auto cancellation = Ask(e, sink, {i});
        if (random() % 5 == 0) cancellation->Cancel();
        if (random() % 50 == 0) AddStep("b", plain);
        sink.Wait();
        ++ended;
      }
    }));
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(ended, 900);
  const auto statistics = e->statistics().Snapshot();
  EXPECT_EQ(statistics.success.count + statistics.fail.count, 900u);
  e->gate().Close();
  EXPECT_TRUE(e->gate().WaitUntilEmpty(SteadyNowNs()));
  pool.reset();  // answers the cancelled requests
  const auto structure = e->structure();
  for (const StructureNode& node : structure->nodes) {
    EXPECT_EQ(node.started, node.ended) << node.name;
    EXPECT_LE(node.failed, node.ended) << node.name;
    EXPECT_GT(node.ended, 0u) << node.name;
  }
}

}  // namespace
}  // namespace braid
