#include "sequences/sequence_queue.h"

#include <gmock/gmock.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <random>
#include <thread>

#include "base/clock.h"
#include "scheduling/testing/counting_sink.h"
#include "scheduling/testing/manual_timers.h"
#include "scheduling/testing/recording_sink.h"

namespace braid {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The owner of a queue: a servable that records which sequences were dropped.
class Owner final : public Servable {
 public:
  explicit Owner(bool makes_calls = false, std::string name = "p") : Servable(Info(name, makes_calls)) {}
  BufferAllocator& input_allocator() override { return heap_; }
  void Infer(std::unique_ptr<InferenceRequest>) override {}
  Readiness readiness() const override { return {}; }
  void Stop(int64_t) override {}
  void DropSequence(const CorrelationId& id) override {
    std::lock_guard lock(mutex_);
    dropped_.push_back(std::get<uint64_t>(id));
  }
  std::vector<uint64_t> dropped() const {
    std::lock_guard lock(mutex_);
    return dropped_;
  }

 private:
  static ServableInfo Info(const std::string& name, bool makes_calls) {
    ServableInfo info;
    info.name = name;
    info.makes_calls = makes_calls;
    return info;
  }
  HeapAllocator heap_;
  mutable std::mutex mutex_;
  std::vector<uint64_t> dropped_;  // guarded by mutex_
};

// Keeps running requests until the test ends them.
class Runs final : public SequenceQueue::Runner {
 public:
  void BeginRun(std::unique_ptr<InferenceRequest> request, SequenceQueue::Entry& entry) override {
    begun.push_back(request->id);
    running.push_back({std::move(request), &entry});
    if (on_begin) on_begin();
  }

  struct Run {
    std::unique_ptr<InferenceRequest> request;
    SequenceQueue::Entry* entry;
  };
  std::deque<Run> running;
  std::vector<std::string> begun;
  std::function<void()> on_begin;
};

class SequenceQueueTest : public ::testing::Test {
 protected:
  enum Flags : unsigned { kMiddle = 0, kStart = 1, kEnd = 2, kBoth = 3 };

  std::unique_ptr<InferenceRequest> Make(const std::string& name, uint64_t id, unsigned flags = kMiddle) {
    auto request = std::make_unique<InferenceRequest>();
    request->id = name;
    request->correlation_id = id;
    request->sequence_start = (flags & kStart) != 0;
    request->sequence_end = (flags & kEnd) != 0;
    request->sink = &sinks_[name];
    request->cancellation = cancellations_[name] = std::make_shared<Cancellation>();
    request->servable = ServableHandle::Enter(owner_);
    request->start_ns = SteadyNowNs();
    return request;
  }
  void Send(const std::string& name, uint64_t id, unsigned flags = kMiddle) {
    auto request = Make(name, id, flags);
    SequenceQueue::Entry* entry = queue_->Enter(runs_, *request).value();
    queue_->Ready(*entry, std::move(request));
  }
  // Answers the oldest running request, as a pipeline does.
  void Finish() {
    Runs::Run run = std::move(runs_.running.front());
    runs_.running.pop_front();
    run.request->Respond(InferenceResponse(), true);
    queue_->Leave(*run.entry);
  }
  Status StatusOf(const std::string& name) {
    EXPECT_TRUE(sinks_[name].ended) << name;
    return sinks_[name].status();
  }

  ManualTimers timers_;
  CallGraph graph_;
  std::shared_ptr<Owner> owner_ = std::make_shared<Owner>();
  std::shared_ptr<SequenceQueue> queue_ = std::make_shared<SequenceQueue>(timers_, graph_, 3);
  Runs runs_;
  std::map<std::string, RecordingSink> sinks_;
  std::map<std::string, std::shared_ptr<Cancellation>> cancellations_;
};

TEST_F(SequenceQueueTest, RunsOneRequestOfASequenceAtATime) {
  Send("a", 7);
  Send("b", 7);
  Send("c", 7);
  Send("other", 8);
  EXPECT_THAT(runs_.begun, ElementsAre("a", "other"));
  EXPECT_EQ(queue_->waiting(runs_), 2u);
  Finish();
  EXPECT_THAT(runs_.begun, ElementsAre("a", "other", "b"));
  Finish();  // other
  EXPECT_EQ(runs_.begun.size(), 3u);
  Finish();
  EXPECT_THAT(runs_.begun, ElementsAre("a", "other", "b", "c"));
  EXPECT_EQ(queue_->waiting(runs_), 0u);
  // A request that begins on a thread with other work is not run by that thread.
  EXPECT_FALSE(runs_.running.front().request->here);
  Finish();
  Send("d", 7);
  EXPECT_TRUE(runs_.running.front().request->here);
  Finish();
  EXPECT_EQ(owner_->gate().inside(), 0u);
}

TEST_F(SequenceQueueTest, APlaceIsTakenBeforeTheRequestIsReady) {
  auto slow = Make("slow", 7);
  SequenceQueue::Entry* entry = queue_->Enter(runs_, *slow).value();
  Send("b", 7);
  EXPECT_THAT(runs_.begun, IsEmpty());
  queue_->Ready(*entry, std::move(slow));
  EXPECT_THAT(runs_.begun, ElementsAre("slow"));
  Finish();
  EXPECT_THAT(runs_.begun, ElementsAre("slow", "b"));
  Finish();
}

TEST_F(SequenceQueueTest, WhatIsRefusedLetsTheOthersGoOn) {
  auto slow = Make("slow", 7);
  SequenceQueue::Entry* entry = queue_->Enter(runs_, *slow).value();
  Send("b", 7);
  queue_->GiveUp(*entry, *slow, InvalidArgumentError("no image"));
  EXPECT_THAT(runs_.begun, ElementsAre("b"));
  EXPECT_THAT(owner_->dropped(), IsEmpty());
  slow->Refuse(InvalidArgumentError("no image"));
  Finish();
  // A cancelled end takes effect, an invalid one does not.
  auto end = Make("end", 7, kEnd);
  entry = queue_->Enter(runs_, *end).value();
  queue_->GiveUp(*entry, *end, InvalidArgumentError("no image"));
  EXPECT_THAT(owner_->dropped(), IsEmpty());
  entry = queue_->Enter(runs_, *end).value();
  queue_->GiveUp(*entry, *end, CancelledError("gone"));
  EXPECT_THAT(owner_->dropped(), ElementsAre(7));
  end->Refuse(CancelledError("gone"));
  EXPECT_EQ(owner_->gate().inside(), 0u);
}

TEST_F(SequenceQueueTest, WhoseClientGoesWhileItWaitsEndsAtOnce) {
  Send("a", 7);
  Send("b", 7);
  Send("c", 7);
  cancellations_["b"]->Cancel();
  EXPECT_FALSE(sinks_["b"].ended);  // within the Cancellation
  timers_.Run();
  EXPECT_EQ(StatusOf("b"), CancelledError("Request cancelled while it waited for model 'p'"));
  EXPECT_EQ(owner_->statistics().Snapshot().failures[static_cast<int>(FailureReason::kCanceled)], 1u);
  EXPECT_EQ(queue_->waiting(runs_), 1u);
  Finish();
  EXPECT_THAT(runs_.begun, ElementsAre("a", "c"));
  // A running request is no longer in the queue.
  cancellations_["c"]->Cancel();
  timers_.Run();
  EXPECT_FALSE(sinks_["c"].ended);
  Finish();
  // A request that was cancelled before does not wait at all.
  Send("d", 7);
  auto early = Make("early", 7);
  early->cancellation->Cancel();
  SequenceQueue::Entry* entry = queue_->Enter(runs_, *early).value();
  queue_->Ready(*entry, std::move(early));
  EXPECT_EQ(StatusOf("early").code(), StatusCode::kCancelled);
  Finish();
}

TEST_F(SequenceQueueTest, AnEndHoldsThoughItsClientGoes) {
  Send("a", 7);
  Send("end", 7, kEnd);
  Send("again", 7, kStart);
  cancellations_["end"]->Cancel();
  timers_.Run();
  EXPECT_EQ(StatusOf("end").code(), StatusCode::kCancelled);
  EXPECT_THAT(owner_->dropped(), IsEmpty());
  EXPECT_EQ(owner_->gate().inside(), 3u);
  EXPECT_THAT(runs_.begun, ElementsAre("a"));
  Finish();
  EXPECT_THAT(owner_->dropped(), ElementsAre(7));
  EXPECT_THAT(runs_.begun, ElementsAre("a", "again"));
  Finish();
  EXPECT_EQ(owner_->gate().inside(), 0u);
  // A sequence of one request needs no end, and a cancelled start did not happen.
  for (const unsigned flags : {kBoth, kStart}) {
    Send("b", 8);
    Send("gone", 8, flags);
    sinks_["gone"] = {};
    cancellations_["gone"]->Cancel();
    timers_.Run();
    Finish();
    sinks_["b"] = {};
  }
  EXPECT_THAT(owner_->dropped(), ElementsAre(7));
}

TEST_F(SequenceQueueTest, NoMoreWaitThanMay) {
  Send("a", 7);
  Send("x", 8);
  Send("b", 7);
  Send("c", 7);
  Send("y", 8);
  auto d = Make("d", 7);
  EXPECT_EQ(queue_->Enter(runs_, *d).status(),
            UnavailableError("[request id: d] Exceeds maximum queue size: 3 requests wait for sequences of "
                             "model 'p', the server's limit for one model"));
  d->Refuse(OkStatus());
  // A request that need not wait is accepted.
  Send("z", 9);
  EXPECT_THAT(runs_.begun, ElementsAre("a", "x", "z"));
  while (!runs_.running.empty()) Finish();
  EXPECT_EQ(runs_.begun.size(), 6u);
}

TEST_F(SequenceQueueTest, AStopRefusesWhatWaitsForOneRunner) {
  Runs other;
  Send("a", 7);
  Send("b", 7);
  Send("gone", 7);
  cancellations_["gone"]->Cancel();
  auto replaced = Make("replaced", 7);
  SequenceQueue::Entry* entry = queue_->Enter(other, *replaced).value();
  queue_->Ready(*entry, std::move(replaced));
  auto slow = Make("slow", 7);
  entry = queue_->Enter(runs_, *slow).value();
  EXPECT_EQ(queue_->waiting(runs_), 1u);
  EXPECT_EQ(queue_->waiting(other), 1u);
  queue_->Stop(runs_);
  EXPECT_EQ(StatusOf("b"),
            UnavailableError("Server exiting or model 'p' being unloaded: the request did not run in time"));
  EXPECT_EQ(StatusOf("gone").code(), StatusCode::kCancelled);
  EXPECT_FALSE(sinks_["replaced"].ended);
  queue_->Ready(*entry, std::move(slow));
  EXPECT_EQ(StatusOf("slow").code(), StatusCode::kUnavailable);
  Finish();
  EXPECT_THAT(other.begun, ElementsAre("replaced"));
  other.running.front().request->Respond(InferenceResponse(), true);
  queue_->Leave(*other.running.front().entry);
  EXPECT_EQ(timers_.size(), 0u);
}

TEST_F(SequenceQueueTest, ThousandsThatEndAtOnceNeedTheStackOfOne) {
  queue_ = std::make_shared<SequenceQueue>(timers_, graph_);
  Send("first", 7);
  for (int i = 0; i < 50000; ++i) Send("next", 7);
  runs_.on_begin = [this] {
    sinks_["next"] = {};
    Finish();
  };
  Finish();
  EXPECT_EQ(runs_.begun.size(), 50001u);
  EXPECT_EQ(owner_->gate().inside(), 0u);
}

// --- Cycles --------------------------------------------------------------------------------------

class SequenceQueueCalls : public SequenceQueueTest {
 protected:
  SequenceQueueCalls() { owner_ = std::make_shared<Owner>(true); }

  // The chain of a call which blocks an instance that runs a request of this chain.
  static std::shared_ptr<const CallChain> CallOf(const void* instance, const std::string& name,
                                                 std::shared_ptr<const CallChain> request) {
    auto chain = std::make_shared<CallChain>();
    chain->model = name;
    chain->instance = name + "_0";
    chain->blocked_instance = instance;
    if (request != nullptr) chain->parents.push_back(std::move(request));
    return chain;
  }
  // The chain of the steps of a running request.
  std::shared_ptr<const CallChain> ChainOf(size_t index) {
    const Runs::Run& run = runs_.running[index];
    return SequenceQueue::ChainOf(*run.entry, *run.request);
  }
  void Call(const std::string& name, uint64_t id, std::shared_ptr<const CallChain> chain) {
    auto request = Make(name, id);
    request->call_chain = std::move(chain);
    SequenceQueue::Entry* entry = queue_->Enter(runs_, *request).value();
    queue_->Ready(*entry, std::move(request));
  }

  int n_ = 0;  // stands for an instance
  int m_ = 0;
};

TEST_F(SequenceQueueCalls, ARunThatCallsItsOwnSequenceIsToldSo) {
  Send("a", 7);
  const auto chain = CallOf(&n_, "n", ChainOf(0));
  Call("other", 8, chain);
  EXPECT_THAT(runs_.begun, ElementsAre("a", "other"));
  Call("same", 7, chain);
  EXPECT_EQ(StatusOf("same"),
            InternalError("the call to model 'p' would wait for itself: p (sequence 7) -> n_0 -> p"));
  EXPECT_EQ(graph_.size(), 0u);
  EXPECT_EQ(queue_->waiting(runs_), 0u);
  // A call that no request waits for may wait.
  Call("waits", 7, CallOf(&m_, "m", nullptr));
  EXPECT_FALSE(sinks_["waits"].ended);
  EXPECT_EQ(graph_.size(), 1u);
  Finish();
  EXPECT_THAT(runs_.begun, ElementsAre("a", "other", "waits"));
  EXPECT_EQ(graph_.size(), 0u);
  while (!runs_.running.empty()) Finish();
}

TEST_F(SequenceQueueCalls, RunsThatCallEachOthersSequencesAreToldSo) {
  Send("a", 7);
  Send("b", 8);
  Call("first", 8, CallOf(&n_, "n", ChainOf(0)));
  EXPECT_FALSE(sinks_["first"].ended);
  Call("second", 7, CallOf(&m_, "m", ChainOf(1)));
  EXPECT_EQ(StatusOf("second"),
            InternalError("the call to model 'p' would wait for itself: p (sequence 8) -> m_0 -> p (sequence "
                          "7) -> n_0 -> p"));
  while (!runs_.running.empty()) Finish();
  EXPECT_TRUE(sinks_["first"].status().ok());
}

// The calling chain is not the run, and does not include it. But it blocks the instance that the run needs.
TEST_F(SequenceQueueCalls, AnInstanceThatARunWaitsForIsPartOfTheCycle) {
  Send("a", 7);
  const auto entry = std::make_shared<CallGraph::Instances>("n");
  entry->Add(&n_, "n_0");
  const auto step = graph_.Wait(entry, ChainOf(0));
  ASSERT_TRUE(step.ok());
  Call("call", 7, CallOf(&n_, "n", nullptr));
  EXPECT_EQ(StatusOf("call").code(), StatusCode::kInternal);
  Finish();
}

TEST_F(SequenceQueueCalls, ALineWithoutUserCodeMakesNoChains) {
  owner_ = std::make_shared<Owner>(false);
  Send("a", 7);
  EXPECT_EQ(ChainOf(0), nullptr);
  Call("waits", 7, CallOf(&n_, "n", nullptr));
  EXPECT_EQ(graph_.size(), 0u);
  Finish();
  EXPECT_EQ(ChainOf(0), runs_.running[0].request->call_chain);
  Finish();
}

// --- Many threads --------------------------------------------------------------------------------

// Ends running requests on separate threads, in any order, or at once.
class BusyRuns final : public SequenceQueue::Runner {
 public:
  static constexpr uint64_t kSequences = 5;

  explicit BusyRuns(SequenceQueue& queue) : queue_(queue) {
    for (int i = 0; i < 3; ++i) threads_.emplace_back([this, i] { Loop(static_cast<unsigned>(i)); });
  }
  void Join() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  void BeginRun(std::unique_ptr<InferenceRequest> request, SequenceQueue::Entry& entry) override {
    const uint64_t id = entry.id();
    EXPECT_EQ(runs_of_[id].fetch_add(1), 0) << "two requests of a sequence run";
    // The number that the client has given the request.
    const int number = std::stoi(request->id);
    EXPECT_GT(number, last_of_[id].exchange(number)) << "a request has overtaken another one";
    ++begun;
    if (number % 3 == 0) {
      Finish({std::move(request), &entry});
      return;
    }
    std::lock_guard lock(mutex_);
    running_.push_back({std::move(request), &entry});
    changed_.notify_one();
  }

  std::atomic<int> begun{0};

 private:
  void Finish(Runs::Run run) {
    runs_of_[run.entry->id()].fetch_sub(1);
    const std::shared_ptr<SequenceQueue> queue = queue_.shared_from_this();
    run.request->Respond(InferenceResponse(), true);
    queue->Leave(*run.entry);
  }
  void Loop(unsigned seed) {
    std::mt19937 random(seed);
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stopping_ || !running_.empty(); });
      if (running_.empty()) return;
      std::swap(running_[random() % running_.size()], running_.back());
      Runs::Run run = std::move(running_.back());
      running_.pop_back();
      lock.unlock();
      Finish(std::move(run));
      lock.lock();
    }
  }

  SequenceQueue& queue_;
  std::atomic<int> runs_of_[kSequences + 1] = {};
  std::atomic<int> last_of_[kSequences + 1] = {};
  std::mutex mutex_;
  std::condition_variable changed_;
  // All guarded by mutex_.
  std::deque<Runs::Run> running_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

// Clients that send without waiting, with cancellations, requests that are decoded meanwhile, and a stop in
// the middle. Each request ends once, and none overtakes another.
TEST(SequenceQueueStress, KeepsTheOrderOfEachSequence) {
  constexpr int kRequests = 4000;
  TimerService timers;
  auto owner = std::make_shared<Owner>();
  CallGraph graph;
  auto queue = std::make_shared<SequenceQueue>(timers, graph);
  BusyRuns runs(*queue);
  std::atomic<int> ended{0};
  std::atomic<int> open{0};
  std::atomic<int> sent{0};
  const auto client = [&](uint64_t id) {
    std::mt19937 random(static_cast<unsigned>(id));
    std::deque<std::shared_ptr<Cancellation>> cancellations;
    // Entries whose requests are away.
    std::deque<std::pair<SequenceQueue::Entry*, std::unique_ptr<InferenceRequest>>> away;
    const auto bring = [&] {
      auto [entry, request] = std::move(away.front());
      away.pop_front();
      if (random() % 5 == 0) {
        const Status why = random() % 2 == 0 ? CancelledError("gone") : InvalidArgumentError("no image");
        queue->GiveUp(*entry, *request, why);
        request->Refuse(why);
      } else {
        queue->Ready(*entry, std::move(request));
      }
    };
    for (int i = 1; i <= kRequests; ++i) {
      while (open.load() > 200) {
        if (away.empty()) {
          std::this_thread::yield();
        } else {
          bring();
        }
      }
      auto request = std::make_unique<InferenceRequest>();
      request->id = std::to_string(i);
      request->correlation_id = id;
      request->sequence_end = random() % 10 == 0;
      request->sink = new CountingSink(ended, open);
      request->servable = ServableHandle::Enter(owner);
      request->cancellation = std::make_shared<Cancellation>();
      if (random() % 3 == 0) cancellations.push_back(request->cancellation);
      ++open;
      ++sent;
      SequenceQueue::Entry* entry = queue->Enter(runs, *request).value();
      if (random() % 4 == 0) {
        away.emplace_back(entry, std::move(request));
      } else {
        queue->Ready(*entry, std::move(request));
      }
      if (!away.empty() && random() % 2 == 0) bring();
      if (cancellations.size() > 3) {
        cancellations.front()->Cancel();
        cancellations.pop_front();
      }
    }
    while (!away.empty()) bring();
  };
  std::vector<std::thread> clients;
  for (uint64_t id = 1; id <= BusyRuns::kSequences; ++id) clients.emplace_back(client, id);
  while (sent.load() < static_cast<int>(BusyRuns::kSequences) * kRequests / 2) std::this_thread::yield();
  const int begun = runs.begun.load();
  EXPECT_GT(begun, 0);
  queue->Stop(runs);
  for (std::thread& thread : clients) thread.join();
  while (open.load() > 0) std::this_thread::yield();
  runs.Join();
  EXPECT_EQ(ended.load(), sent.load());
  // Cancelled ends drop their sequences after the answers.
  while (owner->gate().inside() > 0) std::this_thread::yield();
  EXPECT_EQ(queue->waiting(runs), 0u);
}

}  // namespace
}  // namespace braid
