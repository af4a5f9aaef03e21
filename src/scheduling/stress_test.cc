// A stress test of the scheduler with real threads: clients, instances that answer, die and come back,
// cancellations, timeouts and a stop in the middle. It checks little by itself; it exists for the sanitizers.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <random>
#include <thread>

#include "base/clock.h"
#include "base/thread.h"
#include "model_config.pb.h"
#include "scheduling/testing/counting_sink.h"
#include "sequences/scheduled_model.h"

namespace braid {
namespace {

// Runs executions on a separate thread; it dies and comes back now and then.
class ThreadedInstance final : public Instance {
 public:
  ThreadedInstance(std::string name, unsigned seed) : name_(std::move(name)), random_(seed) {}

  const std::string& name() const override { return name_; }
  void Execute(std::unique_ptr<Execution> execution) override {
    EXPECT_FALSE(executing_.exchange(true)) << "one call at a time";
    {
      std::lock_guard lock(mutex_);
      inside_.push_back(std::move(execution));
      changed_.notify_one();
    }
    executing_ = false;
  }
  void Start(ExecutionListener& listener) {
    thread_ = StartThread("brd-fake", [this, &listener] { Run(listener); });
  }
  void Stop() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
      changed_.notify_one();
    }
    thread_.join();
  }

 private:
  void Run(ExecutionListener& listener) {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stopping_ || !inside_.empty(); });
      if (inside_.empty()) return;
      if (random_() % 50 == 0) {
        Die(listener, lock);
        continue;
      }
      auto execution = std::move(inside_.front());
      inside_.pop_front();
      lock.unlock();
      const int64_t now_ns = SteadyNowNs();
      const ExecutionTimes times{execution->compute_start_ns, now_ns - 20'000, now_ns, now_ns};
      listener.OnExecuted(*this, execution->rows, execution->requests.size(), times);
      for (auto& request : execution->requests) {
        listener.OnResponse(*this, *request, InferenceResponse(), random_() % 2 == 0, times);
        if (!request->ended()) listener.OnResponse(*this, *request, std::nullopt, true, times);
      }
      listener.OnDelivered(*this);
      execution.reset();
      lock.lock();
    }
  }
  void Die(ExecutionListener& listener, std::unique_lock<std::mutex>& lock) {
    lock.unlock();
    listener.OnAvailability(*this, false);
    lock.lock();
    std::vector<std::unique_ptr<Execution>> unstarted;
    for (auto& execution : inside_) unstarted.push_back(std::move(execution));
    inside_.clear();
    lock.unlock();
    listener.OnUnstarted(*this, std::move(unstarted));
    listener.OnAvailability(*this, true);
    lock.lock();
  }

  const std::string name_;
  std::mt19937 random_;
  std::atomic<bool> executing_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Execution>> inside_;
  bool stopping_ = false;
  std::thread thread_;
};

class ThreadedBackend final : public BackendModel {
 public:
  explicit ThreadedBackend(size_t instances) {
    for (size_t i = 0; i < instances; ++i) {
      instances_.push_back(
          std::make_unique<ThreadedInstance>("m_" + std::to_string(i), static_cast<unsigned>(i)));
    }
  }
  BufferAllocator& input_allocator() override { return allocator_; }
  std::vector<Instance*> instances() override {
    std::vector<Instance*> all;
    for (auto& instance : instances_) all.push_back(instance.get());
    return all;
  }
  Status Start(ExecutionListener& listener, const std::function<void(const std::string&)>&) override {
    for (auto& instance : instances_) instance->Start(listener);
    return OkStatus();
  }
  void Stop(int64_t) override {
    for (auto& instance : instances_) instance->Stop();
  }
  Readiness readiness() const override { return {}; }

 private:
  HeapAllocator allocator_;
  std::vector<std::unique_ptr<ThreadedInstance>> instances_;
};

enum class Scheduling { kNone, kDynamic, kDirect, kOldest };

class SchedulerStress : public ::testing::TestWithParam<Scheduling> {};

TEST_P(SchedulerStress, EndsEachRequestOnce) {
  constexpr int kClients = 3;
  constexpr int kRequests = 3000;
  inference::ModelConfig config;
  config.set_name("m");
  config.set_max_batch_size(4);
  if (GetParam() == Scheduling::kDynamic) {
    auto& batching = *config.mutable_dynamic_batching();
    batching.set_max_queue_delay_microseconds(50);
    batching.set_preserve_ordering(true);
    batching.mutable_default_queue_policy()->set_default_timeout_microseconds(3000);
    batching.mutable_default_queue_policy()->set_max_queue_size(64);
  }
  const bool sequences = GetParam() == Scheduling::kDirect || GetParam() == Scheduling::kOldest;
  if (sequences) {
    auto& batching = *config.mutable_sequence_batching();
    batching.set_max_sequence_idle_microseconds(2000);
    if (GetParam() == Scheduling::kOldest) batching.mutable_oldest()->set_preserve_ordering(true);
  }
  ServableInfo info;
  info.name = "m";
  info.max_batch_size = 4;
  info.inputs = {{"A", DataType::kFp32, Shape{-1, 1}, false, false, {}}};
  info.config = std::make_shared<const inference::ModelConfig>(config);

  std::atomic<int> sent{0};
  std::atomic<int> ended{0};
  std::atomic<int> open{0};
  Logger log;
  TimerService timers;
  auto backend = std::make_unique<ThreadedBackend>(2);
  std::shared_ptr<Servable> model;
  if (sequences) {
    model = StartModel(std::move(info), std::move(backend), timers, log, {}, {}).value();
  } else {
    model = StartModel(std::move(info), std::move(backend), timers, log, {}).value();
  }

  const Buffer data = HeapAllocator().Allocate(4).value();
  std::vector<std::thread> clients;
  for (int c = 0; c < kClients; ++c) {
    clients.emplace_back([&, c] {
      std::mt19937 random(static_cast<unsigned>(c));
      std::vector<std::shared_ptr<Cancellation>> cancellations;
      for (int i = 0; i < kRequests; ++i) {
        while (open.load() > 40) std::this_thread::yield();
        auto handle = ServableHandle::Enter(model);
        if (handle == nullptr) return;
        auto request = std::make_unique<InferenceRequest>();
        ++sent;
        ++open;
        request->sink = new CountingSink(ended, open);
        request->servable = std::move(handle);
        request->start_ns = SteadyNowNs();
        if (sequences) {
          request->correlation_id = uint64_t{1 + random() % 12};
          request->sequence_start = random() % 2 == 0;
          request->sequence_end = random() % 4 == 0;
        }
        request->inputs.push_back({"A", DataType::kFp32, Shape{1, 1}, data});
        if (i % 3 != 0) {
          request->cancellation = std::make_shared<Cancellation>();
          cancellations.push_back(request->cancellation);
        }
        model->Infer(std::move(request));
        if (!cancellations.empty() && random() % 4 == 0) {
          cancellations[random() % cancellations.size()]->Cancel();
          if (cancellations.size() > 30) cancellations.clear();
        }
      }
    });
  }
  // The model stops while the last clients are still busy.
  while (sent.load() < kClients * kRequests / 2) std::this_thread::yield();
  model->gate().Close();
  model->Stop(SteadyNowNs() + 60'000'000'000);
  for (auto& client : clients) client.join();
  // A request leaves the gate just before its end is delivered, perhaps by the timers' thread.
  while (open.load() > 0) std::this_thread::yield();
  EXPECT_EQ(ended.load(), sent.load());
  EXPECT_EQ(model->gate().inside(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Batching, SchedulerStress,
                         ::testing::Values(Scheduling::kNone, Scheduling::kDynamic, Scheduling::kDirect,
                                           Scheduling::kOldest));

}  // namespace
}  // namespace braid
