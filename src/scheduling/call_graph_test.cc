#include "scheduling/call_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid {
namespace {

using ::testing::HasSubstr;
using Chain = std::shared_ptr<const CallChain>;

// Models whose instances are only names.
class CallGraphTest : public testing::Test {
 protected:
  struct Model {
    std::shared_ptr<CallGraph::Instances> pool;
    std::vector<std::shared_ptr<std::string>> instances;
  };

  static Model MakeModel(const std::string& name, int instances) {
    Model model{std::make_shared<CallGraph::Instances>(name), {}};
    for (int i = 0; i < instances; ++i) {
      model.instances.push_back(std::make_shared<std::string>(name + "_0_" + std::to_string(i)));
      model.pool->Add(model.instances.back().get(), *model.instances.back());
    }
    return model;
  }

  // A call by an execution on `model`'s instance `index`, which runs requests of `parents`.
  static Chain Call(const Model& model, int index, std::vector<Chain> parents = {}) {
    auto chain = std::make_shared<CallChain>();
    chain->instance = *model.instances[index];
    chain->blocked_instance = model.instances[index].get();
    chain->parents = std::move(parents);
    return chain;
  }

  CallGraph graph_;
};

TEST_F(CallGraphTest, AModelOfOneInstanceThatCallsItselfWaitsForItself) {
  const Model a = MakeModel("a", 1);
  auto ticket = graph_.Wait(a.pool, Call(a, 0));
  ASSERT_FALSE(ticket.ok());
  EXPECT_EQ(ticket.status().code(), StatusCode::kInternal);
  EXPECT_EQ(ticket.status().message(), "the call to model 'a' would wait for itself: a_0_0 -> a");
  EXPECT_EQ(graph_.size(), 0u);
}

TEST_F(CallGraphTest, ASecondInstanceThatIsNotBlockedIsEnough) {
  const Model a = MakeModel("a", 2);
  EXPECT_TRUE(graph_.Wait(a.pool, Call(a, 0)).ok());
}

TEST_F(CallGraphTest, TwoClientsWhoseCallsBlockTheLastTwoInstances) {
  const Model a = MakeModel("a", 2);
  auto first = graph_.Wait(a.pool, Call(a, 0));
  ASSERT_TRUE(first.ok());
  auto second = graph_.Wait(a.pool, Call(a, 1));
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.status().message(), HasSubstr("a_0_1 -> a"));
  // The error has broken the cycle: a_0_1 becomes free and takes the first.
  EXPECT_EQ(graph_.size(), 1u);
}

TEST_F(CallGraphTest, ACycleOverAnotherModelIsNamed) {
  const Model a = MakeModel("a", 1);
  const Model b = MakeModel("b", 1);
  auto ticket = graph_.Wait(a.pool, Call(b, 0, {Call(a, 0)}));
  ASSERT_FALSE(ticket.ok());
  EXPECT_THAT(ticket.status().message(), HasSubstr("a_0_0 -> b_0_0 -> a"));
}

TEST_F(CallGraphTest, TwoModelsThatCallEachOtherForTwoClients) {
  const Model a = MakeModel("a", 1);
  const Model b = MakeModel("b", 1);
  auto to_b = graph_.Wait(b.pool, Call(a, 0));
  ASSERT_TRUE(to_b.ok());
  auto to_a = graph_.Wait(a.pool, Call(b, 0));
  ASSERT_FALSE(to_a.ok());
  EXPECT_THAT(to_a.status().message(), HasSubstr("b_0_0 -> a_0_0 -> b"));
}

TEST_F(CallGraphTest, WaitingForABusyModelIsNoCycle) {
  const Model a = MakeModel("a", 2);
  const Model b = MakeModel("b", 1);
  std::vector<CallGraph::Ticket> tickets;
  for (int i = 0; i < 2; ++i) {
    auto ticket = graph_.Wait(b.pool, Call(a, i));
    ASSERT_TRUE(ticket.ok());
    tickets.push_back(std::move(ticket).value());
  }
  EXPECT_EQ(graph_.size(), 2u);
  tickets.clear();
  EXPECT_EQ(graph_.size(), 0u);
}

TEST_F(CallGraphTest, ManyCallsOfOneExecutionAreOneGroup) {
  const Model a = MakeModel("a", 1);
  const Model b = MakeModel("b", 1);
  const Chain chain = Call(a, 0);
  std::vector<CallGraph::Ticket> tickets;
  for (int i = 0; i < 10'000; ++i) tickets.push_back(graph_.Wait(b.pool, chain).value());
  EXPECT_EQ(graph_.size(), 1u);
}

TEST_F(CallGraphTest, ABatchBlocksAllWhoWaitForOneOfItsRequests) {
  const Model a = MakeModel("a", 1);
  const Model b = MakeModel("b", 1);
  const Model c = MakeModel("c", 1);
  // b runs a batch of two requests, called by a and by c, and calls c.
  auto ticket = graph_.Wait(c.pool, Call(b, 0, {Call(a, 0), Call(c, 0)}));
  ASSERT_FALSE(ticket.ok());
  EXPECT_THAT(ticket.status().message(), HasSubstr("c_0_0 -> b_0_0 -> c"));
}

TEST_F(CallGraphTest, BehindACallerThatIsNotBlockedNobodyIsKnownToWait) {
  const Model a = MakeModel("a", 1);
  const Model b = MakeModel("b", 1);
  auto loose = std::make_shared<CallChain>();
  loose->instance = "a_0_0";
  loose->parents = {Call(a, 0)};
  EXPECT_FALSE(CallGraph::Concerns(loose.get()));
  EXPECT_FALSE(CallGraph::Concerns(nullptr));
  EXPECT_TRUE(graph_.Wait(a.pool, Call(b, 0, {loose})).ok());
}

TEST_F(CallGraphTest, AnInstanceThatIsBeingRestartedWillBeIdle) {
  const Model a = MakeModel("a", 2);
  const Model b = MakeModel("b", 1);
  a.pool->SetAvailable(a.instances[1].get(), false);
  EXPECT_TRUE(graph_.Wait(a.pool, Call(a, 0)).ok());
  a.pool->SetAvailable(a.instances[1].get(), true);
  EXPECT_TRUE(graph_.Wait(a.pool, Call(a, 0)).ok());
}

TEST_F(CallGraphTest, ARequestHandedAheadWaitsForThatInstanceAlone) {
  const Model a = MakeModel("a", 1);
  const Model b = MakeModel("b", 2);
  // a's request is queued after the running execution of b_0_1, which then calls a.
  auto ahead = graph_.Wait(b.pool, Call(a, 0), b.instances[1].get());
  ASSERT_TRUE(ahead.ok());
  auto ticket = graph_.Wait(a.pool, Call(b, 1));
  ASSERT_FALSE(ticket.ok());
  EXPECT_THAT(ticket.status().message(), HasSubstr("b_0_1 -> a_0_0 -> b"));
  EXPECT_TRUE(graph_.Wait(a.pool, Call(b, 0)).ok());
}

TEST_F(CallGraphTest, ALongCycleAcrossClientsIsFoundByItsLastCall) {
  std::vector<Model> models;
  for (int i = 0; i < 5; ++i)
    models.push_back(MakeModel(std::string("m").append(1, static_cast<char>('0' + i)), 1));
  std::vector<CallGraph::Ticket> tickets;
  for (int i = 0; i < 4; ++i) tickets.push_back(graph_.Wait(models[i + 1].pool, Call(models[i], 0)).value());
  auto last = graph_.Wait(models[0].pool, Call(models[4], 0));
  ASSERT_FALSE(last.ok());
  EXPECT_THAT(last.status().message(), HasSubstr("m4_0_0 -> m0_0_0 -> m1_0_0 -> m2_0_0 -> m3_0_0 -> m4"));
}

}  // namespace
}  // namespace braid
