#include "workers/executions_in_flight.h"

#include <gtest/gtest.h>

#include "ipc/arena.h"
#include "ipc/channel.h"

namespace braid {
namespace {

class NamedInstance final : public Instance {
 public:
  explicit NamedInstance(std::string name) : name_(std::move(name)) {}
  const std::string& name() const override { return name_; }
  void Execute(std::unique_ptr<Execution>) override {}

 private:
  const std::string name_;
};

// Records its calls.
class Listener final : public ExecutionListener {
 public:
  void OnExecuted(Instance& instance, int64_t rows, size_t requests, const ExecutionTimes&) override {
    told.push_back(instance.name() + " executed " + std::to_string(rows) + " rows, " +
                   std::to_string(requests) + " requests");
  }
  void OnResponse(Instance& instance, InferenceRequest& request, std::optional<InferenceResponse> response,
                  bool, const ExecutionTimes&) override {
    told.push_back(instance.name() + " answered " + request.id + ": " + response->status.message());
  }
  void OnRescheduled(Instance&, std::unique_ptr<InferenceRequest>) override {}
  void OnUnstarted(Instance& instance, std::vector<std::unique_ptr<Execution>> executions) override {
    std::string line = instance.name() + " returned";
    for (const auto& execution : executions) {
      for (const auto& request : execution->requests) line += " " + request->id;
    }
    told.push_back(line);
  }
  void OnAvailability(Instance&, bool) override {}

  std::vector<std::string> told;
};

// The test plays the user of the worker.
class Flight final : public ExecutionsInFlight {
 public:
  explicit Flight(ExecutionListener& listener) : ExecutionsInFlight(false) { listener_ = &listener; }

  using ExecutionsInFlight::Hand;
  using ExecutionsInFlight::OnDead;
  using ExecutionsInFlight::OnDown;
  using ExecutionsInFlight::OnGone;
  using ExecutionsInFlight::RequestsNow;
  using ExecutionsInFlight::TellRefused;

  void Up(const WorkerLink& link) { EXPECT_TRUE(OnUp(link, {}).ok()); }
  Result<Running> Return(uint64_t id) {
    MutexLock lock(mutex_);
    ExecutionTimes times;
    return TakeReturned(id, 0, 0, times);
  }
  void Answer(uint32_t slot) {
    MutexLock lock(mutex_);
    FreeSlot(slot);
  }
  bool Knows(uint64_t name) {
    MutexLock lock(mutex_);
    return Find(name) != nullptr;
  }
  bool all_answered() {
    MutexLock lock(mutex_);
    return answered();
  }

  Status refusal;               // the result of Send()
  std::vector<uint64_t> names;  // of the requests that were sent
  std::vector<bool> available;  // as reported

 private:
  Status Send(const Running& running, const Execution&) override BRAID_REQUIRES(mutex_) {
    for (const uint32_t slot : running.slots) names.push_back(NameOf(slot));
    return refusal;
  }
  void TellAvailable(bool now) override { available.push_back(now); }
  Status OnMessage(const std::vector<std::byte>&) override { return OkStatus(); }
  int64_t OnRound(int64_t) override { return INT64_MAX; }
  void OnIdle() override {}
  WorkerConversation::Origin OriginOf(const CallMessage&) override { return {}; }
  std::shared_ptr<const CallChain> ForkedChain() override { return nullptr; }
};

class ExecutionsInFlightTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Channel::WorkerEnd end;
    link_.channel = Channel::CreateServerEnd({}, end).value();
    worker_ = Channel::OpenWorkerEnd(std::move(end)).value();
    link_.memory = std::make_shared<WorkerMemory>(link_.channel, arena_);
    flight_.Up(link_);
  }
  bool Hand(Instance& instance, const std::vector<std::string>& ids, Status refused = {}) {
    auto execution = std::make_unique<Execution>();
    for (const std::string& id : ids) {
      execution->requests.push_back(std::make_unique<InferenceRequest>());
      execution->requests.back()->id = id;
    }
    execution->rows = static_cast<int64_t>(10 * ids.size());
    return flight_.Hand(instance, std::move(execution), std::move(refused));
  }
  void Die() {
    flight_.OnDown("it died");
    flight_.OnDead();
    flight_.OnGone("it died");
  }

  SegmentIds ids_;
  Arena arena_{ids_, Arena::Options()};
  WorkerLink link_;
  std::unique_ptr<Channel> worker_;
  NamedInstance a_{"a"};
  NamedInstance b_{"b"};
  Listener listener_;
  Flight flight_{listener_};
};

TEST_F(ExecutionsInFlightTest, KnowsTheRequestsOfTheOneExecutionThatHasBegun) {
  EXPECT_EQ(flight_.RequestsNow(), "");
  ASSERT_TRUE(Hand(a_, {"1", "", "2"}));
  EXPECT_EQ(flight_.RequestsNow(), "");
  ASSERT_TRUE(Hand(b_, {"3"}));
  link_.channel->header().begun_execution = 1;
  EXPECT_EQ(flight_.RequestsNow(), "1, 2");
  link_.channel->header().begun_execution = 2;
  EXPECT_EQ(flight_.RequestsNow(), "");
  Die();
  EXPECT_EQ(flight_.RequestsNow(), "");
}

TEST_F(ExecutionsInFlightTest, ADeathFailsWhatHasBegunAndGivesTheRestBackToItsInstances) {
  ASSERT_TRUE(Hand(a_, {"1", "2"}));
  ASSERT_TRUE(Hand(b_, {"3"}));
  ASSERT_TRUE(Hand(a_, {"4"}));
  ASSERT_TRUE(Hand(b_, {"5"}));
  link_.channel->header().begun_execution = 1;
  Die();
  EXPECT_EQ(listener_.told, (std::vector<std::string>{"a answered 1: it died", "a answered 2: it died",
                                                      "b returned 3 5", "a returned 4"}));
  EXPECT_TRUE(flight_.all_answered());
  EXPECT_EQ(flight_.available, (std::vector<bool>{true, false}));
}

TEST_F(ExecutionsInFlightTest, WhatCannotBeSentIsToldLater) {
  flight_.refusal = UnavailableError("no memory");
  EXPECT_FALSE(Hand(a_, {"1"}));
  EXPECT_FALSE(Hand(a_, {"2"}, CancelledError("not wanted")));
  flight_.OnDown("it is being stopped");
  EXPECT_FALSE(Hand(b_, {"3"}));
  EXPECT_EQ(flight_.NotReadyReason(), "it is being stopped");
  EXPECT_TRUE(listener_.told.empty());
  EXPECT_FALSE(flight_.all_answered());
  flight_.TellRefused();
  EXPECT_EQ(listener_.told,
            (std::vector<std::string>{"a executed 10 rows, 1 requests", "a answered 1: no memory",
                                      "a executed 10 rows, 1 requests", "a answered 2: not wanted",
                                      "b returned 3"}));
  EXPECT_TRUE(flight_.all_answered());
}

TEST_F(ExecutionsInFlightTest, AWorkerThatIsGoneUnnoticedGetsNothingAndFailsNothing) {
  flight_.refusal = UnavailableError("no memory");
  worker_ = nullptr;
  EXPECT_FALSE(Hand(a_, {"1"}));
  flight_.TellRefused();
  EXPECT_EQ(listener_.told, std::vector<std::string>{"a returned 1"});
}

TEST_F(ExecutionsInFlightTest, ReturnsInAnyOrderAndOnceEach) {
  ASSERT_TRUE(Hand(a_, {"1"}));
  ASSERT_TRUE(Hand(b_, {"2", "3"}));
  const auto second = flight_.Return(2);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->instance, &b_);
  EXPECT_EQ(second->rows, 20);
  EXPECT_EQ(second->slots.size(), 2u);
  EXPECT_FALSE(flight_.Return(2).ok());
  EXPECT_FALSE(flight_.Return(3).ok());
  EXPECT_TRUE(flight_.Return(1).ok());
}

TEST_F(ExecutionsInFlightTest, ANameIsOfOneRequestAlone) {
  ASSERT_TRUE(Hand(a_, {"1"}));
  const uint64_t first = flight_.names.at(0);
  EXPECT_NE(first, 0u);
  EXPECT_TRUE(flight_.Knows(first));
  ASSERT_TRUE(flight_.Return(1).ok());
  EXPECT_TRUE(flight_.Knows(first)) << "it has returned, and is not answered";
  flight_.Answer(static_cast<uint32_t>(first));
  EXPECT_FALSE(flight_.Knows(first));
  ASSERT_TRUE(Hand(a_, {"2"}));
  EXPECT_EQ(static_cast<uint32_t>(flight_.names.at(1)), static_cast<uint32_t>(first))
      << "the slot is used again";
  EXPECT_FALSE(flight_.Knows(first));
  EXPECT_FALSE(flight_.Knows(0));
  EXPECT_FALSE(flight_.Knows(uint64_t{1} << 32 | 77));
}

}  // namespace
}  // namespace braid
