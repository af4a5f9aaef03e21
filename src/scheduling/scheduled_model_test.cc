#include "sequences/scheduled_model.h"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <random>
#include <vector>

#include "model_config.pb.h"
#include "scheduling/testing/fake_backend.h"
#include "scheduling/testing/manual_timers.h"
#include "scheduling/testing/recording_sink.h"

namespace braid {
namespace {

constexpr int64_t kUs = 1000;
constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1'000'000'000;

struct Client {
  // Shared with the fixture, whose end answers requests that a test has left unanswered.
  std::shared_ptr<RecordingSink> owned_sink = std::make_shared<RecordingSink>();
  RecordingSink& sink = *owned_sink;
  std::shared_ptr<Cancellation> cancellation = std::make_shared<Cancellation>();
  InferenceRequest* request = nullptr;  // while it has not ended
};

class ScheduledModelTest : public ::testing::Test {
 protected:
  ~ScheduledModelTest() override {
    if (model_) {
      model_->gate().Close();
      model_->Stop(0);
    }
  }

  // Starts a model with one FP32 input "A" of dims [-1] and outputs "X" and "Y".
  void Start(size_t instances, inference::ModelConfig config = {}, InstancePool::Options options = {}) {
    config.set_name("m");
    ServableInfo info;
    info.name = "m";
    info.version = 3;
    info.max_batch_size = config.max_batch_size();
    info.decoupled = config.model_transaction_policy().decoupled();
    Shape shape = {-1};
    if (info.max_batch_size > 0) shape.insert(shape.begin(), -1);
    info.inputs = {{"A", DataType::kFp32, shape, false, false, {}}};
    info.outputs = {{"X", DataType::kFp32, {-1}, false, false, {}},
                    {"Y", DataType::kFp32, {-1}, false, false, {}}};
    info.config = std::make_shared<const inference::ModelConfig>(config);
    auto backend = std::make_unique<FakeBackendModel>(instances);
    backend_ = backend.get();
    auto model = StartModel(std::move(info), std::move(backend), timers_, log_, {}, options);
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *model;
  }

  static inference::ModelConfig Batching(int max_batch_size, int64_t delay_us = 0,
                                         std::vector<int> preferred = {}) {
    inference::ModelConfig config;
    config.set_max_batch_size(max_batch_size);
    config.mutable_dynamic_batching()->set_max_queue_delay_microseconds(static_cast<uint64_t>(delay_us));
    for (int size : preferred) config.mutable_dynamic_batching()->add_preferred_batch_size(size);
    return config;
  }

  std::unique_ptr<InferenceRequest> Make(Client& client, int64_t rows = 1, int64_t columns = 1) {
    auto request = std::make_unique<InferenceRequest>();
    request->model_name = "m";
    request->sink = &client.sink;
    sinks_.push_back(client.owned_sink);
    request->cancellation = client.cancellation;
    request->servable = ServableHandle::Enter(model_);
    request->start_ns = timers_.NowNs();
    Shape shape = {columns};
    if (model_->info().max_batch_size > 0) shape.insert(shape.begin(), rows);
    request->inputs.push_back(
        {"A", DataType::kFp32, shape, HeapAllocator().Allocate(*ByteSize(DataType::kFp32, shape)).value()});
    client.request = request.get();
    return request;
  }
  void Infer(Client& client, int64_t rows = 1, int64_t columns = 1) {
    model_->Infer(Make(client, rows, columns));
  }

  FakeInstance& instance(size_t index = 0) { return *backend_->fakes_[index]; }
  void Finish(size_t index = 0, int64_t execute_ns = kMs) {
    instance(index).Finish(timers_.NowNs(), execute_ns);
  }
  StatisticsSnapshot stats() { return model_->statistics().Snapshot(); }
  uint64_t failures(FailureReason reason) { return stats().failures[static_cast<int>(reason)]; }

  std::vector<std::shared_ptr<RecordingSink>> sinks_;
  ManualTimers timers_;
  Logger log_;
  FakeBackendModel* backend_ = nullptr;
  std::shared_ptr<InstancePool> model_;
};

TEST_F(ScheduledModelTest, AnInstanceMayAnswerWithinExecute) {
  Start(1);
  instance().runs_here_ = true;
  Client client;
  Infer(client);
  EXPECT_TRUE(client.sink.ended);
  EXPECT_EQ(instance().inside(), 0u);
  EXPECT_EQ(stats().success.count, 1u);
}

// A client that sends its next request as soon as it has an answer does not keep the thread for ever.
TEST_F(ScheduledModelTest, AThreadRunsAFewExecutionsItselfAndLeavesTheRest) {
  Start(1);
  instance().runs_here_ = true;
  std::deque<Client> clients(1);
  int depth = 0;
  int deepest = 0;
  std::function<void()> next = [&] {
    deepest = std::max(deepest, ++depth);
    Client& client = clients.emplace_back();
    client.sink.on_response = next;
    Infer(client);
    --depth;
  };
  clients.front().sink.on_response = next;
  Infer(clients.front());
  EXPECT_EQ(clients.size(), 9u);
  EXPECT_EQ(deepest, 1);
  EXPECT_FALSE(clients.back().sink.ended);
  ASSERT_EQ(instance().inside(), 1u);
  EXPECT_FALSE(instance().running().on_callers_thread);
  clients.back().sink.on_response = nullptr;
  Finish();
  EXPECT_TRUE(clients.back().sink.ended);
}

// The thread on which an execution ended has to send its responses.
TEST_F(ScheduledModelTest, WhatWaitedDoesNotRunWithinTheEndOfAnother) {
  Start(1);
  Client first;
  Client second;
  Infer(first);
  Infer(second);
  ASSERT_EQ(model_->pending_requests(), 1);
  instance().runs_here_ = true;
  Finish();
  EXPECT_TRUE(first.sink.ended);
  ASSERT_EQ(instance().inside(), 1u);
  EXPECT_FALSE(instance().running().on_callers_thread);
  Finish();
  EXPECT_TRUE(second.sink.ended);
}

TEST_F(ScheduledModelTest, RunsARequestAtOnceOnAnIdleInstance) {
  Start(1);
  Client client;
  Infer(client);
  ASSERT_EQ(instance().inside(), 1u);
  EXPECT_EQ(instance().running().rows, 1);
  EXPECT_EQ(model_->pending_requests(), 0);
  timers_.Advance(kMs);
  Finish();
  ASSERT_TRUE(client.sink.ended);
  EXPECT_TRUE(client.sink.status().ok());
  EXPECT_EQ(client.sink.responses[0].model_name, "m");
  EXPECT_EQ(client.sink.responses[0].model_version, 3);
  EXPECT_EQ(stats().success.count, 1u);
  EXPECT_EQ(stats().execution_count, 1u);
  EXPECT_EQ(model_->gate().inside(), 0u);
}

TEST_F(ScheduledModelTest, RefusesABadRequestWithoutCountingIt) {
  Start(1);
  Client client;
  auto request = Make(client);
  request->inputs[0].type = DataType::kInt32;
  model_->Infer(std::move(request));
  EXPECT_EQ(client.sink.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(stats().fail.count, 0u);
  EXPECT_EQ(instance().executed(), 0u);
}

TEST_F(ScheduledModelTest, QueuesInOrderWhileInstancesAreBusy) {
  Start(2);
  std::vector<Client> clients(5);
  for (Client& client : clients) Infer(client);
  EXPECT_EQ(instance(0).inside(), 1u);
  EXPECT_EQ(instance(1).inside(), 1u);
  EXPECT_EQ(model_->pending_requests(), 3);
  EXPECT_EQ(instance(0).running().requests[0].get(), clients[0].request);
  EXPECT_EQ(instance(1).running().requests[0].get(), clients[1].request);
  Finish(1);
  EXPECT_EQ(instance(1).running().requests[0].get(), clients[2].request);
  EXPECT_TRUE(clients[1].sink.ended);
  EXPECT_FALSE(clients[0].sink.ended);
  EXPECT_EQ(model_->pending_requests(), 2);
}

TEST_F(ScheduledModelTest, GivesTheFreedInstanceWorkBeforeItAnswers) {
  Start(1);
  Client first;
  Client second;
  Infer(first);
  Infer(second);
  first.sink.on_response = [&] {
    EXPECT_EQ(instance().inside(), 1u);
    EXPECT_EQ(stats().execution_count, 1u) << "statistics come before the response";
    EXPECT_EQ(stats().success.count, 1u);
  };
  Finish();
  EXPECT_TRUE(first.sink.ended);
}

TEST_F(ScheduledModelTest, GivesFastInstancesWorkAhead) {
  Start(2);
  std::vector<Client> clients(12);
  for (size_t i = 0; i < 4; ++i) Infer(clients[i]);
  EXPECT_EQ(instance(0).inside() + instance(1).inside(), 2u) << "nothing ahead for a model of unknown speed";
  Finish(0, 100 * kUs);
  Finish(1, 100 * kUs);
  for (size_t i = 4; i < 12; ++i) Infer(clients[i]);
  EXPECT_EQ(instance(0).inside(), 3u);
  EXPECT_EQ(instance(1).inside(), 3u);
  timers_.Advance(kMs);
  Finish(0, 900 * kUs);
  EXPECT_EQ(instance(0).inside(), 2u) << "nothing ahead for a model that has become slow";
}

TEST_F(ScheduledModelTest, GivesNothingAheadToAnInstanceThatMakesCalls) {
  Start(1);
  Client first;
  Infer(first);
  Finish(0, 20 * kUs);
  instance().makes_calls_ = true;
  Client running;
  Client waiting;
  Infer(running);
  Infer(waiting);
  EXPECT_EQ(instance().inside(), 1u);
  Finish(0, 20 * kUs);
  EXPECT_EQ(instance().inside(), 1u);
}

TEST_F(ScheduledModelTest, FailsACallThatItsOnlyInstanceWaitsFor) {
  CallGraph graph;
  InstancePool::Options options;
  options.call_graph = &graph;
  Start(1, {}, options);
  Client client;
  Infer(client);
  auto chain = std::make_shared<CallChain>();
  chain->instance = "m_0_0";
  chain->blocked_instance = static_cast<const Instance*>(&instance());
  Client nested;
  auto request = Make(nested);
  request->call_chain = chain;
  model_->Infer(std::move(request));
  ASSERT_TRUE(nested.sink.ended);
  EXPECT_EQ(nested.sink.responses.at(0).status.message(),
            "the call to model 'm' would wait for itself: m_0_0 -> m");
  EXPECT_EQ(model_->pending_requests(), 0);
  EXPECT_EQ(graph.size(), 0u);
  Finish();
  EXPECT_TRUE(client.sink.ended);
}

TEST_F(ScheduledModelTest, TheCallGraphKnowsACallWhileItWaits) {
  CallGraph graph;
  InstancePool::Options options;
  options.call_graph = &graph;
  Start(1, {}, options);
  int caller = 0;
  auto chain = std::make_shared<CallChain>();
  chain->instance = "caller_0_0";
  chain->blocked_instance = &caller;
  const auto call = [&](Client& client) {
    auto request = Make(client);
    request->call_chain = chain;
    model_->Infer(std::move(request));
  };
  Client at_once;
  call(at_once);
  EXPECT_EQ(graph.size(), 0u);
  Client waiting;
  Client cancelled;
  call(waiting);
  call(cancelled);
  EXPECT_EQ(graph.size(), 1u);
  Finish();
  cancelled.cancellation->Cancel();
  EXPECT_EQ(graph.size(), 0u);
  Finish(0, 20 * kUs);
  EXPECT_TRUE(waiting.sink.ended);
}

TEST_F(ScheduledModelTest, TheCallGraphKnowsACallThatWasHandedAheadUntilItBegins) {
  CallGraph graph;
  InstancePool::Options options;
  options.call_graph = &graph;
  Start(1, {}, options);
  Client first;
  Infer(first);
  Finish(0, 20 * kUs);
  Client running;
  Infer(running);
  int caller = 0;
  auto chain = std::make_shared<CallChain>();
  chain->instance = "caller_0_0";
  chain->blocked_instance = &caller;
  Client ahead;
  auto request = Make(ahead);
  request->call_chain = chain;
  model_->Infer(std::move(request));
  ASSERT_EQ(instance().inside(), 2u);
  EXPECT_EQ(graph.size(), 1u);
  Finish(0, 20 * kUs);
  EXPECT_EQ(instance().inside(), 1u);
  EXPECT_EQ(graph.size(), 0u);
}

TEST_F(ScheduledModelTest, NeverRunsMoreThanOneRequestWithoutABatchDimension) {
  auto config = Batching(0, 1000);
  Start(1, config);
  std::vector<Client> clients(3);
  for (Client& client : clients) Infer(client);
  for (size_t i = 0; i < 3; ++i) {
    ASSERT_EQ(instance().inside(), 1u);
    EXPECT_EQ(instance().running().requests.size(), 1u);
    Finish();
  }
  EXPECT_EQ(stats().execution_count, 3u);
}

TEST_F(ScheduledModelTest, MakesABatchOfThePreferredSizeAtOnce) {
  Start(1, Batching(16, 12'000'000, {8}));
  std::vector<Client> clients(4);
  for (Client& client : clients) {
    EXPECT_EQ(instance().inside(), 0u);
    Infer(client, 2);
  }
  ASSERT_EQ(instance().inside(), 1u);
  EXPECT_EQ(instance().running().rows, 8);
  Finish();
  const StatisticsSnapshot counted = stats();
  EXPECT_EQ(counted.execution_count, 1u);
  EXPECT_EQ(counted.inference_count, 8u);
  EXPECT_EQ(counted.success.count, 4u);
  ASSERT_EQ(counted.batches.size(), 1u);
  EXPECT_EQ(counted.batches.begin()->first, 8);
}

TEST_F(ScheduledModelTest, HoldsABatchNoLongerThanTheDelay) {
  Start(1, Batching(16, 100));
  Client first;
  Client second;
  Infer(first);
  timers_.Advance(60 * kUs);
  Infer(second);
  timers_.Advance(39 * kUs);
  EXPECT_EQ(instance().inside(), 0u);
  timers_.Advance(1 * kUs);
  ASSERT_EQ(instance().inside(), 1u);
  EXPECT_EQ(instance().running().rows, 2);
  EXPECT_EQ(timers_.size(), 0u);
}

TEST_F(ScheduledModelTest, BatchesWhatWaitedForABusyInstance) {
  Start(1, Batching(4));
  std::vector<Client> clients(7);
  for (Client& client : clients) Infer(client);
  EXPECT_EQ(instance().running().rows, 1);
  Finish();
  EXPECT_EQ(instance().running().rows, 4);
  Finish();
  EXPECT_EQ(instance().running().rows, 2);
}

TEST_F(ScheduledModelTest, KeepsDifferentShapesApart) {
  Start(1, Batching(8, 1000));
  std::vector<Client> clients(3);
  Infer(clients[0], 1, 4);
  Infer(clients[1], 1, 4);
  Infer(clients[2], 1, 5);
  ASSERT_EQ(instance().inside(), 1u);
  EXPECT_EQ(instance().running().rows, 2);
}

TEST_F(ScheduledModelTest, DropsACancelledRequestFromTheQueue) {
  Start(1);
  std::vector<Client> clients(3);
  for (Client& client : clients) Infer(client);
  clients[1].cancellation->Cancel();
  EXPECT_EQ(model_->pending_requests(), 1);
  EXPECT_FALSE(clients[1].sink.ended) << "the end does not come from within Cancel()";
  timers_.Run();
  EXPECT_EQ(clients[1].sink.status().code(), StatusCode::kCancelled);
  EXPECT_EQ(failures(FailureReason::kCanceled), 1u);
  Finish();
  EXPECT_EQ(instance().running().requests[0].get(), clients[2].request);
}

TEST_F(ScheduledModelTest, EndsARequestThatWasCancelledBeforeItCame) {
  Start(1);
  Client client;
  client.cancellation->Cancel();
  Infer(client);
  EXPECT_EQ(client.sink.status().code(), StatusCode::kCancelled);
  EXPECT_EQ(instance().executed(), 0u);
}

TEST_F(ScheduledModelTest, LeavesARunningRequestToTheModel) {
  Start(1);
  Client client;
  Infer(client);
  client.cancellation->Cancel();
  timers_.Run();
  EXPECT_FALSE(client.sink.ended);
  InferenceResponse answer;
  answer.status = CancelledError("stopped");
  instance().Finish(timers_.NowNs(), kMs, answer);
  EXPECT_EQ(failures(FailureReason::kCanceled), 1u);
}

TEST_F(ScheduledModelTest, RejectsByTheQueuePolicy) {
  auto config = Batching(1);
  auto& policy = *config.mutable_dynamic_batching()->mutable_default_queue_policy();
  policy.set_max_queue_size(1);
  policy.set_default_timeout_microseconds(100);
  Start(1, config);
  std::vector<Client> clients(3);
  for (Client& client : clients) Infer(client);
  EXPECT_EQ(clients[2].sink.status(),
            UnavailableError("[request id: <id_unknown>] Exceeds maximum queue size"));
  timers_.Advance(100 * kUs);
  EXPECT_EQ(clients[1].sink.status(), UnavailableError("Request timeout expired"));
  EXPECT_EQ(failures(FailureReason::kRejected), 2u);
  EXPECT_FALSE(clients[0].sink.ended);
}

TEST_F(ScheduledModelTest, ARequestMeetsItsTimeOutBehindAFastInstance) {
  auto config = Batching(1);
  config.mutable_dynamic_batching()->mutable_default_queue_policy()->set_allow_timeout_override(true);
  Start(1, config);
  Client warm;
  Infer(warm);
  Finish(0, 20 * kUs);
  std::vector<Client> clients(2);
  Infer(clients[0]);
  auto request = Make(clients[1]);
  request->timeout_us = 100;
  model_->Infer(std::move(request));
  EXPECT_EQ(instance().inside(), 1u) << "nothing is handed ahead where it would escape its time-out";
  timers_.Advance(100 * kUs);
  EXPECT_EQ(clients[1].sink.status(), UnavailableError("Request timeout expired"));
  EXPECT_FALSE(clients[0].sink.ended);
}

TEST_F(ScheduledModelTest, TheTimeOutOfACallCountsFromTheCall) {
  auto config = Batching(1);
  config.mutable_dynamic_batching()->mutable_default_queue_policy()->set_allow_timeout_override(true);
  Start(1, config);
  timers_.Advance(kSecond);
  const auto send = [&](Client& client, int64_t since_ns) {
    auto request = Make(client);
    request->timeout_us = 5;
    request->start_ns = since_ns;
    request->call_chain = std::make_shared<CallChain>();
    model_->Infer(std::move(request));
  };
  Client late;
  // 3 us to arrive here mean as many back.
  send(late, timers_.NowNs() - 3 * kUs);
  EXPECT_EQ(late.sink.status(), UnavailableError("Request timeout expired")) << "though an instance is idle";
  EXPECT_EQ(instance().executed(), 0u);
  Client in_time;
  send(in_time, timers_.NowNs() - 2 * kUs);
  EXPECT_EQ(instance().inside(), 1u);
}

TEST_F(ScheduledModelTest, BoundsTheQueueByItself) {
  Start(1, {}, {.max_queue_size = 2});
  std::vector<Client> clients(4);
  for (Client& client : clients) Infer(client);
  EXPECT_TRUE(clients[3].sink.ended);
  EXPECT_EQ(clients[3].sink.status().code(), StatusCode::kUnavailable);
}

TEST_F(ScheduledModelTest, RunsHigherPrioritiesFirst) {
  auto config = Batching(1);
  config.mutable_dynamic_batching()->set_priority_levels(2);
  config.mutable_dynamic_batching()->set_default_priority_level(2);
  Start(1, config);
  std::vector<Client> clients(3);
  Infer(clients[0]);
  Infer(clients[1]);
  auto urgent = Make(clients[2]);
  urgent->priority = 1;
  model_->Infer(std::move(urgent));
  Finish();
  EXPECT_EQ(instance().running().requests[0].get(), clients[2].request);
}

TEST_F(ScheduledModelTest, AnswersInTheOrderOfArrivalWhenAsked) {
  auto config = Batching(1);
  config.mutable_dynamic_batching()->set_preserve_ordering(true);
  Start(2, config);
  std::vector<Client> clients(2);
  for (Client& client : clients) Infer(client);
  Finish(1);
  EXPECT_FALSE(clients[1].sink.ended);
  Finish(0);
  EXPECT_TRUE(clients[0].sink.ended);
  EXPECT_TRUE(clients[1].sink.ended);
}

TEST_F(ScheduledModelTest, PrunesOutputsThatWereNotAskedFor) {
  Start(1);
  InferenceResponse answer;
  for (const char* name : {"Y", "Z", "X"}) answer.outputs.push_back({name, DataType::kInt64, {1}, {}});
  Client all;
  Infer(all);
  instance().Finish(timers_.NowNs(), kMs, answer);
  ASSERT_EQ(all.sink.responses[0].outputs.size(), 2u);
  EXPECT_EQ(all.sink.responses[0].outputs[0].name, "Y");
  Client one;
  auto request = Make(one);
  request->requested_outputs = {"X"};
  model_->Infer(std::move(request));
  instance().Finish(timers_.NowNs(), kMs, answer);
  ASSERT_EQ(one.sink.responses[0].outputs.size(), 1u);
  EXPECT_EQ(one.sink.responses[0].outputs[0].name, "X");
}

TEST_F(ScheduledModelTest, CountsAnErrorOfTheModel) {
  Start(1);
  Client client;
  Infer(client);
  InferenceResponse answer;
  answer.status = InvalidArgumentError("no");
  instance().Finish(timers_.NowNs(), kMs, answer);
  EXPECT_EQ(client.sink.status(), InvalidArgumentError("no"));
  EXPECT_EQ(failures(FailureReason::kBackend), 1u);
  EXPECT_EQ(stats().success.count, 0u);
}

TEST_F(ScheduledModelTest, CountsAnAnswerWhenTheClientSeesIt) {
  Start(1);
  Client client;
  Infer(client);
  auto execution = instance().Take();
  InferenceRequest& request = *execution->requests[0];
  instance().listener_->OnResponse(instance(), request, InferenceResponse(), false, {});
  EXPECT_EQ(stats().success.count, 1u);
  instance().listener_->OnExecuted(instance(), 1, 1, {});
  instance().listener_->OnResponse(instance(), request, std::nullopt, true, {});
  EXPECT_EQ(stats().success.count, 1u);
  EXPECT_TRUE(client.sink.ended);
}

TEST_F(ScheduledModelTest, CountsADecoupledRequestAtItsEnd) {
  inference::ModelConfig config;
  config.mutable_model_transaction_policy()->set_decoupled(true);
  Start(1, config);
  Client client;
  Infer(client);
  auto execution = instance().Take();
  InferenceRequest& request = *execution->requests[0];
  instance().listener_->OnExecuted(instance(), 1, 1, {});
  instance().listener_->OnResponse(instance(), request, InferenceResponse(), false, {});
  EXPECT_EQ(stats().success.count, 0u);
  InferenceResponse error;
  error.status = InternalError("half way");
  instance().listener_->OnResponse(instance(), request, error, false, {});
  instance().listener_->OnResponse(instance(), request, std::nullopt, true, {});
  EXPECT_EQ(failures(FailureReason::kBackend), 1u);
  EXPECT_EQ(client.sink.responses.size(), 2u);
  const StatisticsSnapshot counted = stats();
  ASSERT_EQ(counted.responses.size(), 3u);
  EXPECT_EQ(counted.responses.at(0).success.count, 1u);
  EXPECT_EQ(counted.responses.at(1).fail.count, 1u);
  EXPECT_EQ(counted.responses.at(2).empty_response.count, 1u);
}

TEST_F(ScheduledModelTest, RunsElsewhereWhatADeadInstanceHadNotBegun) {
  Start(2);
  std::vector<Client> clients(6);
  Client warm;
  Infer(warm);
  Finish(0, 100 * kUs);
  for (size_t i = 0; i < 6; ++i) Infer(clients[i]);
  ASSERT_EQ(instance(0).inside(), 3u);
  instance(0).Die();
  EXPECT_TRUE(clients[0].sink.ended);  // it ran
  // The two that had not begun run next.
  Finish(1, 300 * kUs);
  Finish(1, 300 * kUs);
  Finish(1, 300 * kUs);
  Finish(1, 300 * kUs);
  Finish(1, 300 * kUs);
  for (Client& client : clients) EXPECT_TRUE(client.sink.ended);
}

TEST_F(ScheduledModelTest, GivesBackUnstartedRequestsToTheFront) {
  Start(1);
  std::vector<Client> clients(5);
  Client warm;
  Infer(warm);
  Finish(0, 100 * kUs);
  for (Client& client : clients) Infer(client);
  ASSERT_EQ(instance().inside(), 3u);
  instance().Die();
  EXPECT_TRUE(clients[0].sink.ended);
  EXPECT_EQ(model_->pending_requests(), 4);
  instance().Revive();
  EXPECT_EQ(instance().running().requests[0].get(), clients[1].request);
  for (size_t i = 1; i < 5; ++i) {
    EXPECT_EQ(instance().running().requests[0].get(), clients[i].request);
    Finish();
  }
}

TEST_F(ScheduledModelTest, CancelsWhatCameBack) {
  Start(1);
  std::vector<Client> clients(3);
  Client warm;
  Infer(warm);
  Finish(0, 100 * kUs);
  for (Client& client : clients) Infer(client);
  clients[1].cancellation->Cancel();  // too late to be taken back, but then the instance dies
  instance().Die();
  EXPECT_EQ(clients[1].sink.status().code(), StatusCode::kCancelled);
  clients[2].cancellation->Cancel();
  timers_.Run();
  EXPECT_EQ(clients[2].sink.status().code(), StatusCode::kCancelled);
  EXPECT_EQ(model_->pending_requests(), 0);
}

TEST_F(ScheduledModelTest, StopsUsingAnInstanceThatGivesBackWithoutAWord) {
  Start(1);
  std::vector<Client> clients(2);
  Client warm;
  Infer(warm);
  Finish(0, 100 * kUs);
  for (Client& client : clients) Infer(client);
  instance().DieUnannounced();
  EXPECT_EQ(instance().inside(), 0u);
  instance().listener_->OnAvailability(instance(), false);
  EXPECT_EQ(instance().inside(), 0u);
  instance().Revive();
  EXPECT_EQ(instance().inside(), 1u);
}

TEST_F(ScheduledModelTest, FailsARequestWhoseInstancesKeepDying) {
  Start(1);
  Client client;
  Infer(client);
  for (int death = 0; death < 3; ++death) {
    EXPECT_FALSE(client.sink.ended);
    std::vector<std::unique_ptr<Execution>> unstarted;
    unstarted.push_back(instance().Take());
    instance().listener_->OnAvailability(instance(), false);
    instance().listener_->OnUnstarted(instance(), std::move(unstarted));
    instance().Revive();
  }
  EXPECT_EQ(client.sink.status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(failures(FailureReason::kOther), 1u);
}

TEST_F(ScheduledModelTest, FailsWhatWaitsThroughALongOutage) {
  Start(1);
  backend_->readiness_ = {false, "model.py keeps failing"};
  instance().Die();
  Client early;
  Infer(early);
  timers_.Advance(4 * kSecond);
  Client late;
  Infer(late);
  EXPECT_FALSE(early.sink.ended);
  timers_.Advance(1 * kSecond);
  ASSERT_TRUE(early.sink.ended);
  ASSERT_TRUE(late.sink.ended);
  EXPECT_EQ(
      early.sink.status(),
      UnavailableError("no instance of model 'm' was available for 5000 ms (--outage-wait-ms): model.py "
                       "keeps failing"));
  Client after;
  Infer(after);
  EXPECT_TRUE(after.sink.ended);
  instance().Revive();
  Client good;
  Infer(good);
  EXPECT_EQ(instance().inside(), 1u);
}

TEST_F(ScheduledModelTest, FailsAtOnceWhatComesInAnOutage) {
  Start(1, {}, {.outage_wait_ns = 0});
  std::vector<Client> early(2);
  for (Client& client : early) Infer(client);
  backend_->readiness_ = {false, "it was killed"};
  instance().Die();
  const Status outage = UnavailableError("no instance of model 'm' is available: it was killed");
  EXPECT_EQ(early[0].sink.status(), InternalError("the instance died"));
  ASSERT_TRUE(early[1].sink.ended);
  EXPECT_EQ(early[1].sink.status(), outage);
  Client late;
  Infer(late);
  ASSERT_TRUE(late.sink.ended);
  EXPECT_EQ(late.sink.status(), outage);
  instance().Revive();
  Client good;
  Infer(good);
  EXPECT_EQ(instance().inside(), 1u);
}

TEST_F(ScheduledModelTest, WaitsThroughAShortOutage) {
  Start(1);
  instance().Die();
  Client client;
  Infer(client);
  timers_.Advance(4 * kSecond);
  instance().Revive();
  ASSERT_EQ(instance().inside(), 1u);
  timers_.Advance(4 * kSecond);
  EXPECT_FALSE(client.sink.ended);
  Finish();
  EXPECT_TRUE(client.sink.status().ok());
}

TEST_F(ScheduledModelTest, StopEndsWhatIsLeftAtTheDeadline) {
  Start(1);
  Client running;
  Client queued;
  Infer(running);
  Infer(queued);
  model_->gate().Close();
  model_->Stop(5);
  EXPECT_EQ(queued.sink.status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(running.sink.status(), UnavailableError("stopped by force"));
  EXPECT_EQ(backend_->stop_deadline_ns_, 5);
  EXPECT_EQ(model_->gate().inside(), 0u);
  model_.reset();
}

TEST_F(ScheduledModelTest, NeverSchedulesPassiveInstances) {
  inference::ModelConfig config;
  config.set_name("m");
  ServableInfo info;
  info.name = "m";
  info.config = std::make_shared<const inference::ModelConfig>(config);
  auto backend = std::make_unique<FakeBackendModel>(0);
  backend_ = backend.get();
  backend->fakes_.push_back(std::make_unique<FakeInstance>("passive", true));
  backend->fakes_.push_back(std::make_unique<FakeInstance>("active"));
  model_ = StartModel(std::move(info), std::move(backend), timers_, log_, {}).value();
  Client client;
  auto request = Make(client);
  request->inputs.clear();
  model_->Infer(std::move(request));
  EXPECT_EQ(instance(0).inside(), 0u);
  EXPECT_EQ(instance(1).inside(), 1u);
}

TEST_F(ScheduledModelTest, ReportsWhatKeptTheInstancesFromStarting) {
  ServableInfo info;
  info.name = "m";
  info.config = std::make_shared<const inference::ModelConfig>();
  auto backend = std::make_unique<FakeBackendModel>(1);
  backend->start_status_ = InternalError("no module named numpy");
  EXPECT_EQ(StartModel(std::move(info), std::move(backend), timers_, log_, {}).status(),
            InternalError("no module named numpy"));
}

// Random clients, executions, cancellations and deaths, in virtual time. In any case each request ends once,
// batches keep their bounds, and no request waits beside an idle instance for longer than the delay.
class Simulation : public ScheduledModelTest, public ::testing::WithParamInterface<unsigned> {};

TEST_P(Simulation, KeepsItsPromises) {
  std::mt19937 random(GetParam());
  const auto draw = [&random](int from, int to) {
    return std::uniform_int_distribution<int>(from, to)(random);
  };
  const int max_batch = draw(1, 16);
  const int delay_us = draw(0, 1) * draw(1, 500);
  auto config = Batching(max_batch, delay_us);
  if (draw(0, 1)) config.mutable_dynamic_batching()->add_preferred_batch_size(draw(1, max_batch));
  config.mutable_dynamic_batching()->set_preserve_ordering(draw(0, 3) == 0);
  if (draw(0, 1)) {
    config.mutable_dynamic_batching()->mutable_default_queue_policy()->set_default_timeout_microseconds(2000);
    config.mutable_dynamic_batching()->mutable_default_queue_policy()->set_max_queue_size(20);
  }
  if (draw(0, 4) == 0) config.clear_dynamic_batching();
  const bool batches = config.has_dynamic_batching();
  const auto instances = static_cast<size_t>(draw(1, 3));
  Start(instances, config);

  std::deque<Client> clients;
  std::vector<bool> alive(instances, true);
  const auto check = [&] {
    bool idle = false;
    for (size_t i = 0; i < instances; ++i) {
      if (alive[i] && instance(i).inside() == 0) idle = true;
      if (instance(i).inside() == 0) continue;
      int64_t rows = 0;
      for (auto& request : instance(i).running().requests) rows += request->batch_size;
      ASSERT_LE(rows, max_batch);
      ASSERT_EQ(rows, instance(i).running().rows);
      ASSERT_TRUE(batches || instance(i).running().requests.size() == 1u);
    }
    // A request whose answer waits for its turn is destroyed before its client is notified.
    if (!idle || config.dynamic_batching().preserve_ordering()) return;
    for (Client& client : clients) {
      // With an idle instance only the delay keeps a request waiting, and then a timer is set.
      if (client.request == nullptr || client.sink.ended || !client.request->scheduling.queued) continue;
      ASSERT_LT(timers_.NowNs(), client.request->queue_start_ns + delay_us * kUs);
      ASSERT_LE(timers_.next_deadline_ns(), client.request->queue_start_ns + delay_us * kUs);
    }
  };
  for (int step = 0; step < 3000; ++step) {
    const auto which = static_cast<size_t>(draw(0, static_cast<int>(instances) - 1));
    switch (draw(0, 11)) {
      case 0:
      case 1:
      case 2:
      case 3: {
        Client& client = clients.emplace_back();
        auto request = Make(client, draw(1, max_batch), draw(0, 9) == 0 ? 2 : 1);
        client.sink.on_response = [&client] { client.request = nullptr; };
        model_->Infer(std::move(request));
        break;
      }
      case 4:
      case 5:
      case 6:
        if (instance(which).inside() > 0) Finish(which, draw(1, 300) * kUs);
        break;
      case 7:
      case 8:
        timers_.Advance(draw(1, 200) * kUs);
        break;
      case 9:
        if (!clients.empty())
          clients[static_cast<size_t>(draw(0, static_cast<int>(clients.size()) - 1))].cancellation->Cancel();
        break;
      case 10:
        if (alive[which] && draw(0, 5) == 0) {
          alive[which] = false;
          instance(which).Die();
        }
        break;
      default:
        if (!alive[which]) {
          alive[which] = true;
          instance(which).Revive();
        }
    }
    check();
    if (HasFatalFailure()) return;
  }
  for (size_t i = 0; i < instances; ++i) {
    if (!alive[i]) instance(i).Revive();
  }
  for (bool busy = true; busy;) {
    busy = false;
    timers_.Advance(kMs);
    for (size_t i = 0; i < instances; ++i) {
      if (instance(i).inside() == 0) continue;
      busy = true;
      Finish(i);
    }
  }
  for (Client& client : clients) EXPECT_TRUE(client.sink.ended);
  const StatisticsSnapshot counted = stats();
  EXPECT_EQ(counted.success.count + counted.fail.count, clients.size());
  EXPECT_EQ(model_->gate().inside(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Simulation, ::testing::Range(1u, 61u));

}  // namespace
}  // namespace braid
