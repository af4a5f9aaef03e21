#include "worker/extension/inbox.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "ipc/messages.h"

namespace braid {
namespace {

using Message = std::vector<std::byte>;
using Outcome = Inbox::Outcome;
constexpr int64_t kLong = 60'000'000'000;

class InboxTest : public testing::Test {
 protected:
  InboxTest() {
    Channel::WorkerEnd end;
    server_ = Channel::CreateServerEnd({}, end).value();
    worker_ = Channel::OpenWorkerEnd(std::move(end)).value();
    inbox_ = std::make_unique<Inbox>(*worker_, [this] { Attend(); });
  }
  ~InboxTest() override { inbox_->End("over"); }

  void Attend() {
    const Inbox::Chores chores = inbox_->TakeChores();
    for (uint64_t check : chores.checks) checks_ = check;
    for (const auto& exchange : chores.noticed) {
      Message message;
      while (inbox_->Take(*exchange, message)) ++noticed_;
    }
  }
  void Execute(uint64_t id) {
    Message message;
    Encode(message, ExecuteMessage{.execution_id = id, .requests = {}});
    ASSERT_TRUE(server_->Send(message).ok());
  }
  void Respond(uint64_t call, bool final = true) {
    ResponseMessage response;
    response.request_id = call;
    response.final = final;
    Message message;
    Encode(message, response, MessageType::kCallResponse);
    ASSERT_TRUE(server_->Send(message).ok());
  }
  void Call(const Exchange& exchange) {
    CallMessage call;
    call.request.id = exchange.id();
    Message message;
    Encode(message, call);
    ASSERT_TRUE(worker_->Send(message).ok());
  }
  // Waits for one message for the exchange, like a thread of user code.
  bool WaitFor(Exchange& exchange) {
    Message message;
    while (!inbox_->Take(exchange, message)) {
      const Outcome outcome = inbox_->Wait(exchange);
      if (inbox_->has_chores()) Attend();
      if (outcome == Outcome::kEnded) return false;
    }
    return true;
  }
  Outcome Await(int64_t timeout_ns = kLong) {
    inbox_->WillAwait();
    return inbox_->Await(timeout_ns);
  }
  static uint64_t ExecutionId(const Message& message) {
    ExecuteMessage execute;
    EXPECT_TRUE(Decode(message, execute));
    return execute.execution_id;
  }
  // Answers `count` calls, the last of the pending ones first.
  std::thread Answer(int count) {
    return std::thread([this, count] {
      std::vector<uint64_t> waiting;
      Message message;
      for (int seen = 0; seen < count || !waiting.empty();) {
        const bool more =
            server_->Receive(message, waiting.empty() ? kLong : 0) == Channel::Outcome::kMessage;
        CallMessage call;
        if (more && Decode(message, call)) {
          waiting.push_back(call.request.id);
          ++seen;
        } else if (!waiting.empty()) {
          Respond(waiting.back());
          waiting.pop_back();
        }
      }
    });
  }

  std::unique_ptr<Channel> server_;
  std::unique_ptr<Channel> worker_;
  std::unique_ptr<Inbox> inbox_;
  std::atomic<int> noticed_{0};
  std::atomic<uint64_t> checks_{0};
};

TEST_F(InboxTest, MainMessagesComeInOrderWhoeverReads) {
  auto exchange = inbox_->Begin(Exchange::Notice::kNone, false);
  for (uint64_t id = 1; id <= 3; ++id) Execute(id);
  Respond(exchange->id());
  Execute(4);
  EXPECT_TRUE(WaitFor(*exchange));
  EXPECT_TRUE(inbox_->Exhausted(*exchange));
  Message message;
  for (uint64_t id = 1; id <= 4; ++id) {
    ASSERT_EQ(inbox_->Next(message, kLong), Outcome::kReady);
    EXPECT_EQ(ExecutionId(message), id);
  }
  EXPECT_EQ(inbox_->Next(message, 0), Outcome::kTimeout);
}

TEST_F(InboxTest, ThreadsWaitForEachOthersMessagesBesideTheMainThread) {
  constexpr int kThreads = 4;
  constexpr int kCalls = 2000;
  constexpr uint64_t kExecutions = 2000;
  std::thread answering = Answer(kThreads * kCalls);
  std::vector<std::thread> callers;
  for (int t = 0; t < kThreads; ++t) {
    callers.emplace_back([this] {
      for (int i = 0; i < kCalls; ++i) {
        auto exchange = inbox_->Begin(Exchange::Notice::kNone, false);
        Call(*exchange);
        ASSERT_TRUE(WaitFor(*exchange));
      }
    });
  }
  std::thread executing([this] {
    for (uint64_t id = 1; id <= kExecutions; ++id) Execute(id);
  });
  Message message;
  for (uint64_t id = 1; id <= kExecutions; ++id) {
    ASSERT_EQ(inbox_->Next(message, kLong), Outcome::kReady);
    ASSERT_EQ(ExecutionId(message), id);
  }
  executing.join();
  for (std::thread& caller : callers) caller.join();
  answering.join();
}

TEST_F(InboxTest, TheLoopIsWokenForWhatAThreadReads) {
  constexpr int kCalls = 500;
  constexpr uint64_t kExecutions = 500;
  std::thread answering = Answer(kCalls);
  std::thread calling([this] {
    for (int i = 0; i < kCalls; ++i) {
      auto exchange = inbox_->Begin(Exchange::Notice::kNone, false);
      Call(*exchange);
      ASSERT_TRUE(WaitFor(*exchange));
    }
  });
  std::thread executing([this] {
    for (uint64_t id = 1; id <= kExecutions; ++id) Execute(id);
  });
  inbox_->EnterLoop();
  Message message;
  for (uint64_t id = 1; id <= kExecutions;) {
    pollfd wake{worker_->wake_fd(), POLLIN, 0};
    ASSERT_EQ(poll(&wake, 1, 60'000), 1);
    std::byte wakes[64];
    ASSERT_GT(read(worker_->wake_fd(), wakes, sizeof(wakes)), 0);
    while (inbox_->Next(message, 0) == Outcome::kReady) ASSERT_EQ(ExecutionId(message), id++);
  }
  executing.join();
  calling.join();
  inbox_->LeaveLoop();
  answering.join();
}

TEST_F(InboxTest, TheReaderReadsForExchangesInTheBackground) {
  constexpr int kCalls = 1000;
  std::thread answering = Answer(kCalls);
  for (int i = 0; i < kCalls; ++i) {
    auto exchange = inbox_->Begin(Exchange::Notice::kLast, true);
    Call(*exchange);
  }
  answering.join();
  while (noticed_ != kCalls) std::this_thread::yield();
  // The reader has released the lead, or does so at the next message.
  Execute(1);
  Execute(2);
  Message message;
  ASSERT_EQ(inbox_->Next(message, kLong), Outcome::kReady);
  EXPECT_EQ(ExecutionId(message), 1u);
}

TEST_F(InboxTest, WhatNobodyWantsBecomesAChore) {
  auto exchange = inbox_->Begin(Exchange::Notice::kFirst, false);
  Respond(exchange->id(), false);
  inbox_->Poll();
  EXPECT_TRUE(inbox_->Open(*exchange));
  EXPECT_EQ(inbox_->TakeChores().noticed.size(), 1u);
  inbox_->Discard(*exchange);
  Respond(exchange->id(), false);
  Respond(exchange->id(), true);
  inbox_->Poll();
  EXPECT_TRUE(inbox_->has_chores());
  EXPECT_EQ(inbox_->TakeChores().discarded.size(), 3u);
  EXPECT_FALSE(inbox_->has_chores());
  EXPECT_FALSE(inbox_->Open(*exchange));
}

TEST_F(InboxTest, AnAnswerToWhatWasNotAskedEndsAllWaits) {
  auto exchange = inbox_->Begin(Exchange::Notice::kNone, false);
  Respond(exchange->id() + 1);
  EXPECT_FALSE(WaitFor(*exchange));
  EXPECT_EQ(inbox_->why(), "an answer to an unknown question");
  Message message;
  EXPECT_EQ(inbox_->Next(message, kLong), Outcome::kEnded);
}

TEST_F(InboxTest, TheEndReachesAllWhoWait) {
  std::vector<std::thread> waiting;
  for (int i = 0; i < 3; ++i) {
    waiting.emplace_back([this] {
      auto exchange = inbox_->Begin(Exchange::Notice::kNone, false);
      EXPECT_FALSE(WaitFor(*exchange));
    });
  }
  inbox_->End("unloaded");
  for (std::thread& thread : waiting) thread.join();
  EXPECT_EQ(inbox_->why(), "unloaded");
}

TEST_F(InboxTest, ReadinessIsAskedWhileNobodyWaits) {
  inbox_->WatchForChecks();
  Message message;
  Encode(message, CheckReadyMessage{5});
  ASSERT_TRUE(server_->Send(message).ok());
  while (checks_ == 0) std::this_thread::yield();
  EXPECT_EQ(checks_, 5u);
}

TEST_F(InboxTest, ASegmentThatIsGoneIsLetGoOfByAThreadThatOnlyWaits) {
  Message retired;
  Encode(retired, RetireSegmentMessage{7});
  ASSERT_TRUE(server_->Send(retired).ok());
  Message message;
  EXPECT_EQ(inbox_->Next(message, kLong), Outcome::kAttend);
  const Inbox::Chores chores = inbox_->TakeChores();
  ASSERT_EQ(chores.housekeeping.size(), 1u);
  EXPECT_EQ(chores.housekeeping[0], retired);
}

// --- Several threads that share the main thread's messages

// Waits until `count` threads are in Await().
void WaitForAwaiting(const Inbox& inbox, size_t count) {
  while (inbox.awaiting() != count) std::this_thread::yield();
}

TEST_F(InboxTest, OneThreadComesBackForWhatIsThere) {
  std::atomic<int> back{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      if (Await() == Outcome::kReady) ++back;
    });
  }
  WaitForAwaiting(*inbox_, 3);
  Execute(1);
  Execute(2);
  WaitForAwaiting(*inbox_, 2);
  // The thread that returned has not taken the messages yet, so the next one returns no other thread.
  auto exchange = inbox_->Begin(Exchange::Notice::kNone, false);
  Execute(3);
  Respond(exchange->id());
  EXPECT_TRUE(WaitFor(*exchange));
  EXPECT_EQ(inbox_->awaiting(), 2u);
  while (back != 1) std::this_thread::yield();
  Message message;
  for (uint64_t id = 1; id <= 3; ++id) {
    ASSERT_TRUE(inbox_->TakeMain(message));
    EXPECT_EQ(ExecutionId(message), id);
    // Remaining messages return no other thread either, even if a thread wakes up meanwhile.
    const auto other = inbox_->Begin(Exchange::Notice::kNone, false);
    Respond(other->id());
    EXPECT_TRUE(WaitFor(*other));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(inbox_->awaiting(), 2u);
  }
  EXPECT_FALSE(inbox_->TakeMain(message));
  Execute(4);
  WaitForAwaiting(*inbox_, 1);
  inbox_->End("over");
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(back, 2);
  EXPECT_EQ(inbox_->awaiting(), 0u);
}

TEST_F(InboxTest, ThreadsAreSummonedTheOneThatReadsLast) {
  EXPECT_FALSE(inbox_->Summon(true));
  std::atomic<int> summoned{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      if (Await() == Outcome::kSummoned) ++summoned;
    });
  }
  WaitForAwaiting(*inbox_, 2);
  EXPECT_TRUE(inbox_->Summon(false));
  EXPECT_EQ(inbox_->awaiting(), 1u);
  while (summoned != 1) std::this_thread::yield();
  EXPECT_TRUE(inbox_->Summon(true));
  EXPECT_EQ(inbox_->awaiting(), 0u);
  EXPECT_FALSE(inbox_->Summon(true));
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(summoned, 2);
}

TEST_F(InboxTest, AThreadThatIsAboutToWaitCanBeSummoned) {
  inbox_->WillAwait();
  EXPECT_TRUE(inbox_->Summon(false));
  EXPECT_EQ(inbox_->awaiting(), 0u);
  EXPECT_EQ(inbox_->Await(kLong), Outcome::kSummoned);
  EXPECT_FALSE(inbox_->Summon(true));
}

TEST_F(InboxTest, AwaitingHasAnEnd) {
  EXPECT_EQ(Await(1'000'000), Outcome::kTimeout);
  Message retired;
  Encode(retired, RetireSegmentMessage{7});
  ASSERT_TRUE(server_->Send(retired).ok());
  EXPECT_EQ(Await(), Outcome::kAttend);
  EXPECT_EQ(inbox_->TakeChores().housekeeping.size(), 1u);
  // Also if another thread has read the message.
  ASSERT_TRUE(server_->Send(retired).ok());
  inbox_->Poll();
  EXPECT_EQ(Await(), Outcome::kAttend);
  EXPECT_EQ(inbox_->TakeChores().housekeeping.size(), 1u);
  inbox_->Break("enough");
  EXPECT_EQ(Await(), Outcome::kEnded);
}

TEST_F(InboxTest, ThreadsShareMessagesInTheirOrderBesideCalls) {
  constexpr int kThreads = 4;
  constexpr uint64_t kExecutions = 3000;
  std::thread answering = Answer(kExecutions / 10);
  // Stands in for the GIL.
  std::mutex turn;
  uint64_t last = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      while (true) {
        const Outcome outcome = Await();
        if (outcome == Outcome::kEnded) return;
        std::vector<uint64_t> mine;
        {
          std::lock_guard lock(turn);
          Message message;
          while (inbox_->TakeMain(message)) {
            mine.push_back(ExecutionId(message));
            EXPECT_EQ(mine.back(), ++last);
          }
          if (mine.size() > 1) inbox_->Summon(last % 2 == 0);
        }
        for (uint64_t id : mine) {
          if (id % 10 != 0) continue;
          auto exchange = inbox_->Begin(Exchange::Notice::kNone, false);
          Call(*exchange);
          EXPECT_TRUE(WaitFor(*exchange));
        }
      }
    });
  }
  for (uint64_t id = 1; id <= kExecutions; ++id) Execute(id);
  answering.join();
  while (true) {
    std::lock_guard lock(turn);
    if (last == kExecutions) break;
  }
  WaitForAwaiting(*inbox_, kThreads);
  inbox_->End("over");
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace braid
