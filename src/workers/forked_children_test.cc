#include "workers/forked_children.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "ipc/fork_rendezvous.h"
#include "ipc/messages.h"
#include "workers/testing/holding_servable.h"

namespace braid {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

// The test plays the forked processes, on its own threads.
class ForkedChildrenTest : public testing::Test {
 protected:
  void SetUp() override {
    services_.catalog = &catalog_;
    catalog_.Publish(callee_);
    auto chain = std::make_shared<CallChain>();
    chain->instance = "m_0_0";
    children_ = std::make_unique<ForkedChildren>(services_, arena_, log_, chain, nullptr);
    Channel::WorkerEnd end;
    server_ = Channel::CreateServerEnd({}, end).value();
    worker_ = Channel::OpenWorkerEnd(std::move(end)).value();
  }

  // Plays a process that forks and asks for a channel.
  std::unique_ptr<Channel> Fork() {
    Result<Channel::WorkerEnd> end = UnavailableError("");
    std::thread fork([&] { end = RequestForkChannel(*worker_, 10 * kSecond); });
    std::vector<std::byte> message;
    EXPECT_EQ(server_->Receive(message, 10 * kSecond), Channel::Outcome::kTimeout);
    EXPECT_TRUE(server_->TakeForkSignal());
    EXPECT_TRUE(server_->ReceiveSegment(false).ok());
    for (UniqueFd& fork_socket : server_->TakeForkSockets()) children_->Admit(std::move(fork_socket));
    fork.join();
    if (!end.ok()) return nullptr;
    return Channel::OpenWorkerEnd(std::move(end).value()).value();
  }

  static void Call(Channel& child, uint64_t id) {
    CallMessage call;
    call.model_name = "callee";
    call.request.id = id;
    std::vector<std::byte> message;
    Encode(message, call);
    ASSERT_TRUE(child.Send(message).ok());
  }
  static void WaitFor(const std::function<bool()>& condition) {
    const int64_t deadline = SteadyNowNs() + 10 * kSecond;
    while (!condition() && SteadyNowNs() < deadline) std::this_thread::yield();
    ASSERT_TRUE(condition());
  }

  SegmentIds ids_;
  Arena arena_{ids_, Arena::Options()};
  Logger log_;
  Catalog catalog_;
  std::shared_ptr<HoldingServable> callee_ = std::make_shared<HoldingServable>("callee");
  WorkerServices services_;
  std::unique_ptr<ForkedChildren> children_;
  std::unique_ptr<Channel> server_;
  std::unique_ptr<Channel> worker_;
};

TEST_F(ForkedChildrenTest, EachCallsForItself) {
  std::vector<std::unique_ptr<Channel>> forks;
  for (int i = 0; i < 10; ++i) {
    forks.push_back(Fork());
    ASSERT_NE(forks.back(), nullptr);
  }
  EXPECT_EQ(children_->size(), 10u);
  // All calls have the same id: each conversation has its own ids.
  for (auto& fork : forks) Call(*fork, 1);
  WaitFor([&] { return callee_->held() == 10; });
  while (callee_->held() > 0) callee_->Answer();
  for (auto& fork : forks) {
    std::vector<std::byte> message;
    ResponseMessage response;
    ASSERT_EQ(fork->Receive(message, 10 * kSecond), Channel::Outcome::kMessage);
    ASSERT_TRUE(Decode(message, response, MessageType::kCallResponse));
    EXPECT_EQ(response.request_id, 1u);
    EXPECT_EQ(response.code, StatusCode::kOk);
  }
}

TEST_F(ForkedChildrenTest, AProcessThatEndsCancelsItsCalls) {
  auto staying = Fork();
  auto ending = Fork();
  Call(*ending, 1);
  WaitFor([&] { return callee_->held() == 1; });
  EXPECT_FALSE(callee_->front().cancelled());
  ending.reset();
  WaitFor([&] { return callee_->front().cancelled(); });
  WaitFor([&] { return children_->size() == 1; });
  callee_->Answer();
  Call(*staying, 1);
  WaitFor([&] { return callee_->held() == 1; });
  callee_->Answer();
}

TEST_F(ForkedChildrenTest, TheWorkersEndIsTheEndOfAll) {
  auto fork = Fork();
  Call(*fork, 1);
  WaitFor([&] { return callee_->held() == 1; });
  children_.reset();
  EXPECT_TRUE(callee_->front().cancelled());
  callee_->Answer();
}

TEST_F(ForkedChildrenTest, WhoBreaksTheRulesIsHeardNoMore) {
  auto fork = Fork();
  std::vector<std::byte> message;
  EncodeBare(message, MessageType::kFinalized);
  ASSERT_TRUE(fork->Send(message).ok());
  WaitFor([&] { return children_->size() == 0; });
}

TEST_F(ForkedChildrenTest, TooManyAreRefused) {
  // This process has both ends of all channels.
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  std::vector<std::unique_ptr<Channel>> forks;
  for (size_t i = 0; i < ForkedChildren::kMostChildren; ++i) forks.push_back(Fork());
  EXPECT_NE(forks.back(), nullptr);
  EXPECT_EQ(Fork(), nullptr);
  forks.clear();
  WaitFor([&] { return children_->size() == 0; });
  EXPECT_NE(Fork(), nullptr);
}

}  // namespace
}  // namespace braid
