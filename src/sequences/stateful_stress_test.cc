// Many sequences at once, from several threads, in random order, with failures, dying instances and
// cancellations. Each gives bit for bit the same results as alone. For the sanitizers too.
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
#include "sequences/testing/step_states.h"

namespace braid {
namespace {

constexpr int kSequences = 500;
constexpr int kSteps = 100;
constexpr int kThreads = 4;
constexpr int kPipelined = 6;  // requests of one sequence in flight

// Runs executions on a separate thread, or on the caller's; some fail, and now and then it dies.
class StatefulInstance final : public Instance {
 public:
  StatefulInstance(std::string name, unsigned seed) : name_(std::move(name)), random_(seed) {}

  const std::string& name() const override { return name_; }
  void Execute(std::unique_ptr<Execution> execution) override {
    std::unique_lock lock(mutex_);
    if (execution->on_callers_thread && inside_.empty() && !running_ && random_() % 4 == 0) {
      running_ = true;
      lock.unlock();
      Run(std::move(execution));
      lock.lock();
      running_ = false;
      changed_.notify_one();
      return;
    }
    inside_.push_back(std::move(execution));
    changed_.notify_one();
  }
  void Start(ExecutionListener& listener) {
    listener_ = &listener;
    thread_ = StartThread("brd-fake", [this] { Loop(); });
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
  void Loop() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return !running_ && (stopping_ || !inside_.empty()); });
      if (inside_.empty()) return;
      if (random_() % 500 == 0) {
        Die(lock);
        continue;
      }
      auto execution = std::move(inside_.front());
      inside_.pop_front();
      running_ = true;
      lock.unlock();
      Run(std::move(execution));
      lock.lock();
      running_ = false;
    }
  }
  void Run(std::unique_ptr<Execution> execution) {
    const int64_t now_ns = SteadyNowNs();
    const ExecutionTimes times{execution->compute_start_ns, now_ns, now_ns, now_ns};
    listener_->OnExecuted(*this, execution->rows, execution->requests.size(), times);
    for (auto& request : execution->requests) {
      const std::vector<Tensor>& inputs = request->inputs;
      EXPECT_EQ(inputs.size(), request->sequence_start ? 1u : 2u);
      InferenceResponse response;
      if (failing_++ % 37 == 0) {
        response.status = InternalError("failed");
      } else {
        const uint64_t state = Step(inputs.size() == 1 ? 0 : ValueOf(inputs[1]), ValueOf(inputs[0]));
        response.outputs = {Number("X", state), Number("state", state)};
      }
      listener_->OnResponse(*this, *request, std::move(response), true, times);
    }
    listener_->OnDelivered(*this);
  }
  void Die(std::unique_lock<std::mutex>& lock) {
    std::vector<std::unique_ptr<Execution>> unstarted;
    running_ = true;
    lock.unlock();
    listener_->OnAvailability(*this, false);
    lock.lock();
    for (auto& execution : inside_) unstarted.push_back(std::move(execution));
    inside_.clear();
    lock.unlock();
    listener_->OnUnstarted(*this, std::move(unstarted));
    listener_->OnAvailability(*this, true);
    lock.lock();
    running_ = false;
  }

  const std::string name_;
  ExecutionListener* listener_ = nullptr;
  std::atomic<unsigned> failing_{1};
  std::mutex mutex_;
  std::condition_variable changed_;
  // All guarded by mutex_.
  std::mt19937 random_;
  std::deque<std::unique_ptr<Execution>> inside_;
  bool running_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

class StatefulBackend final : public BackendModel {
 public:
  explicit StatefulBackend(size_t instances) {
    for (size_t i = 0; i < instances; ++i) {
      instances_.push_back(
          std::make_unique<StatefulInstance>("m_" + std::to_string(i), static_cast<unsigned>(i)));
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
  std::vector<std::unique_ptr<StatefulInstance>> instances_;
};

// The client of one sequence: a start that has to succeed, pipelined steps, and an end that is repeated until
// the sequence has ended.
class Driver {
 public:
  Driver(uint64_t id, Servable& model, std::shared_ptr<Servable> share)
      : id_(id), random_(static_cast<unsigned>(id)), model_(model), share_(std::move(share)) {}

  // Sends the next request, if possible. Returns false when the sequence is over. One call at a time.
  bool Go() {
    Stage stage;
    {
      std::lock_guard lock(mutex_);
      if (over_) return false;
      const bool alone = stage_ != Stage::kSteps || sent_ == kSteps;
      if (open_ >= (alone ? 1 : kPipelined)) return true;
      if (stage_ == Stage::kSteps && sent_ == kSteps) stage_ = Stage::kEnd;
      ++open_;
      if (stage_ == Stage::kSteps) ++sent_;
      stage = stage_;
    }
    Send(stage);
    return true;
  }
  uint64_t good_steps() const { return good_; }

 private:
  enum class Stage { kStart, kSteps, kEnd };

  class Sink final : public ResponseSink {
   public:
    Sink(Driver& driver, Stage stage, uint64_t input, bool cancels)
        : driver_(driver), stage_(stage), input_(input), cancels_(cancels) {}
    void Respond(std::optional<InferenceResponse> response, bool final) override {
      EXPECT_TRUE(final && response);
      driver_.Hear(stage_, input_, cancels_, *response);
      delete this;
    }

   private:
    Driver& driver_;
    const Stage stage_;
    const uint64_t input_;
    const bool cancels_;
  };

  void Send(Stage stage) {
    const uint64_t input = random_();
    const bool cancels = random_() % 11 == 0;
    auto request = std::make_unique<InferenceRequest>();
    request->correlation_id = id_;
    request->sequence_start = stage == Stage::kStart;
    request->sequence_end = stage == Stage::kEnd;
    request->servable = ServableHandle::Enter(share_);
    request->start_ns = SteadyNowNs();
    request->inputs.push_back(Number("A", input));
    request->sink = new Sink(*this, stage, input, cancels);
    auto cancellation = request->cancellation = std::make_shared<Cancellation>();
    if (cancels && random_() % 4 == 0) cancellation->Cancel();
    model_.Infer(std::move(request));
    if (cancels) cancellation->Cancel();
  }
  void Hear(Stage stage, uint64_t input, bool cancels, const InferenceResponse& response) {
    std::lock_guard lock(mutex_);
    --open_;
    const StatusCode code = response.status.code();
    if (response.status.ok()) {
      state_ = Step(stage == Stage::kStart ? 0 : state_, input);
      EXPECT_EQ(response.outputs.size(), 2u);
      EXPECT_EQ(ValueOf(response.outputs.front()), state_) << "sequence " << id_ << " request " << good_;
      EXPECT_EQ(ValueOf(response.outputs.back()), id_);
      ++good_;
    } else if (code == StatusCode::kCancelled) {
      EXPECT_TRUE(cancels);
    } else {
      // The other error is that of a request whose instances died too often.
      EXPECT_TRUE(response.status.message() == "failed" || code == StatusCode::kUnavailable)
          << response.status;
    }
    if (stage == Stage::kStart && response.status.ok()) stage_ = Stage::kSteps;
    if (stage == Stage::kEnd) over_ = response.status.ok() || code == StatusCode::kCancelled;
  }

  const uint64_t id_;
  std::mt19937 random_;  // used by Go() alone
  Servable& model_;
  const std::shared_ptr<Servable> share_;
  std::mutex mutex_;
  // All guarded by mutex_.
  Stage stage_ = Stage::kStart;
  int sent_ = 0;
  int open_ = 0;
  bool over_ = false;
  uint64_t state_ = 0;
  uint64_t good_ = 0;
};

class StatefulStress : public ::testing::Test {
 protected:
  void Start(size_t instances) {
    ServableInfo info;
    info.name = "m";
    info.dialect = Dialect::kOvms;
    info.inputs.emplace_back();
    info.inputs[0].name = "A";
    info.inputs[0].type = DataType::kUint64;
    info.inputs[0].shape = {1};
    info.outputs = info.inputs;
    info.outputs[0].name = "X";
    info.stateful = StatefulSpec{};
    info.stateful->states = {{"state", DataType::kUint64, {1}}};
    info.config = std::make_shared<const inference::ModelConfig>();
    model_ = StartModel(std::move(info), std::make_unique<StatefulBackend>(instances), timers_, log_, {}, {})
                 .value();
  }
  // Saves the sequences, as the vault does at any time.
  void Look() {
    for (const SavedSequence& saved : model_->sequences()->Save()) EXPECT_EQ(saved.states.size(), 1u);
    const SequenceCounts counts = model_->sequences()->counts();
    EXPECT_LE(counts.active, static_cast<uint64_t>(kSequences));
    EXPECT_EQ(counts.active, counts.restored + counts.started - counts.ended - counts.expired - counts.lost);
  }
  void Stop() {
    model_->gate().Close();
    model_->Stop(SteadyNowNs() + 60'000'000'000);
  }

  Logger log_;
  TimerService timers_;
  std::shared_ptr<InstancePool> model_;
};

TEST_F(StatefulStress, EachSequenceGivesWhatItGivesAlone) {
  Start(3);
  std::deque<Driver> drivers;
  for (uint64_t id = 1; id <= kSequences; ++id) drivers.emplace_back(id, *model_, model_);
  // A thread may take any sequence, but no two threads the same at once.
  std::mutex mutex;
  std::vector<Driver*> idle;
  for (Driver& driver : drivers) idle.push_back(&driver);
  std::atomic<int> left{kSequences};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      while (left.load() > 0) {
        Driver* driver = nullptr;
        {
          std::lock_guard lock(mutex);
          if (!idle.empty()) {
            std::swap(idle[random() % idle.size()], idle.back());
            driver = idle.back();
            idle.pop_back();
          }
        }
        if (random() % 1000 == 0) Look();
        std::this_thread::yield();
        if (driver == nullptr) continue;
        if (driver->Go()) {
          std::lock_guard lock(mutex);
          idle.push_back(driver);
        } else {
          --left;
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(model_->sequences()->counts().active, 0u);
  EXPECT_EQ(model_->sequences()->counts().ended, static_cast<uint64_t>(kSequences));
  EXPECT_EQ(model_->sequences()->counts().rejected, 0u);
  EXPECT_EQ(model_->pending_requests(), 0);
  uint64_t good = 0;
  for (Driver& driver : drivers) good += driver.good_steps();
  EXPECT_EQ(model_->statistics().Snapshot().success.count, good);
  EXPECT_GT(good, static_cast<uint64_t>(kSequences * kSteps / 2));
  Stop();
  EXPECT_EQ(model_->gate().inside(), 0u);
}

// All kinds of events, with a stop in the middle: each request ends once.
TEST_F(StatefulStress, EndsEachRequestOnce) {
  constexpr int kClients = 3;
  constexpr int kRequests = 3000;
  Start(2);
  model_->sequences()->HoldUntilRestored(SteadyNowNs() + 2'000'000);
  std::atomic<int> sent{0};
  std::atomic<int> ended{0};
  std::atomic<int> open{0};
  std::vector<std::thread> clients;
  for (unsigned c = 0; c < kClients; ++c) {
    clients.emplace_back([&, c] {
      std::mt19937 random(c);
      std::vector<std::shared_ptr<Cancellation>> cancellations;
      for (int i = 0; i < kRequests; ++i) {
        while (open.load() > 40) std::this_thread::yield();
        auto handle = ServableHandle::Enter(model_);
        if (handle == nullptr) return;
        auto request = std::make_unique<InferenceRequest>();
        ++sent;
        ++open;
        request->sink = new CountingSink(ended, open);
        request->servable = std::move(handle);
        request->start_ns = SteadyNowNs();
        request->correlation_id = uint64_t{1 + random() % 8};
        request->sequence_start = random() % 3 == 0;
        request->sequence_end = random() % 6 == 0;
        request->inputs.push_back(Number("A", 1));
        if (i % 3 != 0) {
          request->cancellation = std::make_shared<Cancellation>();
          cancellations.push_back(request->cancellation);
        }
        model_->Infer(std::move(request));
        if (!cancellations.empty() && random() % 4 == 0) {
          cancellations[random() % cancellations.size()]->Cancel();
          if (cancellations.size() > 30) cancellations.clear();
        }
        if (random() % 40 == 0) model_->sequences()->Drop(uint64_t{1 + random() % 8});
        if (random() % 40 == 0) model_->sequences()->CleanUp();
        if (random() % 80 == 0) {
          std::vector<SavedSequence> saved;
          saved.push_back({uint64_t{1 + random() % 8}, {Number("state", 5)}});
          model_->sequences()->Restore(std::move(saved));
        }
      }
    });
  }
  // The model stops while the last clients are still busy.
  while (sent.load() < kClients * kRequests / 2) std::this_thread::yield();
  Stop();
  for (auto& client : clients) client.join();
  // A request leaves the gate just before its end is delivered, perhaps by the timers' thread.
  while (open.load() > 0) std::this_thread::yield();
  EXPECT_EQ(ended.load(), sent.load());
  EXPECT_EQ(model_->gate().inside(), 0u);
  EXPECT_EQ(model_->pending_requests(), 0);
}

}  // namespace
}  // namespace braid
