#include "scheduling/request_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace braid {
namespace {

std::unique_ptr<InferenceRequest> Request(std::string id, uint64_t priority = 0, uint64_t timeout_us = 0) {
  auto request = std::make_unique<InferenceRequest>();
  request->id = std::move(id);
  request->priority = priority;
  request->timeout_us = timeout_us;
  return request;
}

InferenceRequest* Push(RequestQueue& queue, std::string id, int64_t now_ns = 0, uint64_t priority = 0,
                       uint64_t timeout_us = 0) {
  auto request = Request(std::move(id), priority, timeout_us);
  InferenceRequest* raw = request.get();
  EXPECT_TRUE(queue.Push(request, now_ns).ok());
  return raw;
}

// Returns the ids in the order in which the requests would leave; checks that After() agrees.
std::string Drain(RequestQueue& queue) {
  std::string seen;
  for (const InferenceRequest* r = queue.front(); r != nullptr; r = queue.After(*r)) seen += r->id;
  std::string left;
  while (!queue.empty()) left += queue.PopFront()->id;
  EXPECT_EQ(seen, left);
  return left;
}

BatchingPolicy Levels(uint32_t count, uint32_t default_level, QueuePolicy policy = {}) {
  BatchingPolicy batching;
  batching.level_count = count;
  batching.default_policy = policy;
  batching.default_level = default_level;
  return batching;
}

TEST(RequestQueue, IsFirstInFirstOut) {
  RequestQueue queue(Levels(1, 0), 10, "m");
  Push(queue, "a");
  Push(queue, "b");
  Push(queue, "c");
  EXPECT_EQ(Drain(queue), "abc");
}

TEST(RequestQueue, GivesHigherLevelsFirst) {
  RequestQueue queue(Levels(3, 1), 10, "m");
  Push(queue, "a", 0, 3);
  Push(queue, "b", 0, 0);
  Push(queue, "c", 0, 1);
  Push(queue, "d", 0, 99);  // beyond the levels: the default
  Push(queue, "e", 0, 2);
  EXPECT_EQ(Drain(queue), "cbdea");
}

TEST(RequestQueue, AnyNumberOfLevelsCostsNoMoreThanTheRequests) {
  BatchingPolicy policy = Levels(UINT32_MAX, UINT32_MAX - 1);
  policy.level_policies[4] = {.max_queue_size = 1};
  RequestQueue queue(policy, 5000, "m");
  Push(queue, "z");
  Push(queue, "y", 0, UINT32_MAX - 1);
  Push(queue, "a", 0, 5);
  auto second = Request("b", 5, 0);
  EXPECT_FALSE(queue.Push(second, 0).ok());
  EXPECT_EQ(Drain(queue), "ayz");
  for (int round = 0; round < 2; ++round) {
    for (uint64_t priority = 4000; priority > 0; --priority) Push(queue, "", 0, priority);
    uint64_t expected = 0;
    while (!queue.empty()) ASSERT_EQ(queue.PopFront()->priority, ++expected);
  }
}

TEST(RequestQueue, PutsBackInFront) {
  RequestQueue queue(Levels(2, 1), 10, "m");
  Push(queue, "a", 0, 1);
  Push(queue, "b");
  auto a = queue.PopFront();
  auto b = queue.PopFront();
  Push(queue, "c");
  queue.PushFront(std::move(b));
  queue.PushFront(std::move(a));
  EXPECT_EQ(Drain(queue), "abc");
}

TEST(RequestQueue, RemovesFromAnywhere) {
  RequestQueue queue(Levels(1, 0), 10, "m");
  auto* a = Push(queue, "a");
  auto* b = Push(queue, "b");
  Push(queue, "c");
  auto* d = Push(queue, "d");
  EXPECT_EQ(queue.Remove(*b)->id, "b");
  EXPECT_EQ(queue.Remove(*a)->id, "a");
  EXPECT_EQ(queue.Remove(*d)->id, "d");
  EXPECT_EQ(queue.size(), 1u);
  Push(queue, "e");
  EXPECT_EQ(Drain(queue), "ce");
}

TEST(RequestQueue, RefusesBeyondThePolicysSize) {
  RequestQueue queue(Levels(2, 1, {.max_queue_size = 1}), 10, "m");
  Push(queue, "a");
  auto b = Request("b");
  EXPECT_EQ(queue.Push(b, 0), UnavailableError("[request id: b] Exceeds maximum queue size"));
  ASSERT_NE(b, nullptr);
  Push(queue, "c", 0, 1);  // another level
  EXPECT_EQ(Drain(queue), "ca");
}

TEST(RequestQueue, IsBoundedWithoutAPolicy) {
  RequestQueue queue(Levels(1, 0), 2, "m");
  Push(queue, "a");
  Push(queue, "b");
  auto c = Request("");
  const Status status = queue.Push(c, 0);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(status.message().find(
                "[request id: <id_unknown>] Exceeds maximum queue size: 2 requests wait for model 'm'"),
            0u);
  Drain(queue);
}

TEST(RequestQueue, RejectsWhatTimesOut) {
  RequestQueue queue(Levels(1, 0, {.default_timeout_ns = 1000, .allow_timeout_override = true}), 10, "m");
  Push(queue, "a", 0);
  Push(queue, "b", 0, 0, 5);  // 5 us is longer than the default, which wins
  Push(queue, "c", 500);
  EXPECT_EQ(queue.next_deadline_ns(), 1000);
  std::vector<std::unique_ptr<InferenceRequest>> rejected;
  queue.Expire(999, rejected);
  EXPECT_TRUE(rejected.empty());
  queue.Expire(1000, rejected);
  ASSERT_EQ(rejected.size(), 2u);
  EXPECT_EQ(queue.next_deadline_ns(), 1500);
  EXPECT_EQ(Drain(queue), "c");
  EXPECT_EQ(queue.next_deadline_ns(), INT64_MAX);
}

TEST(RequestQueue, HeedsTheRequestsTimeoutOnlyWhenAllowed) {
  RequestQueue strict(Levels(1, 0), 10, "m");
  Push(strict, "a", 0, 0, 1);
  EXPECT_EQ(strict.next_deadline_ns(), INT64_MAX);
  Drain(strict);
  RequestQueue queue(Levels(1, 0, {.allow_timeout_override = true}), 10, "m");
  Push(queue, "a", 7, 0, 1);
  EXPECT_EQ(queue.next_deadline_ns(), 1007);
  Push(queue, "b", 7, 0, UINT64_MAX);
  Drain(queue);
}

TEST(RequestQueue, DelaysWhatTimesOutBehindTheOthersOfItsLevel) {
  RequestQueue queue(Levels(2, 0, {.delay_on_timeout = true, .default_timeout_ns = 1000}), 10, "m");
  Push(queue, "a", 0);
  Push(queue, "b", 100);
  Push(queue, "x", 0, 2);
  std::vector<std::unique_ptr<InferenceRequest>> rejected;
  queue.Expire(1000, rejected);
  EXPECT_TRUE(rejected.empty());
  Push(queue, "c", 1000);
  Push(queue, "y", 1000, 2);
  EXPECT_EQ(queue.size(), 5u);
  EXPECT_EQ(Drain(queue), "bcayx");
}

TEST(RequestQueue, KeepsTheDeadlineOfWhatComesBack) {
  RequestQueue queue(Levels(1, 0, {.default_timeout_ns = 1000}), 10, "m");
  Push(queue, "a", 0);
  auto a = queue.PopFront();
  EXPECT_EQ(queue.next_deadline_ns(), INT64_MAX);
  queue.PushFront(std::move(a));
  EXPECT_EQ(queue.next_deadline_ns(), 1000);
  Drain(queue);
}

TEST(RequestQueue, KeepsDeadlinesInOrderUnderRandomUse) {
  std::mt19937 random(3);
  const auto draw = [&random](int to) { return std::uniform_int_distribution<int>(0, to)(random); };
  RequestQueue queue(Levels(3, 0, {.allow_timeout_override = true}), 1000, "m");
  std::map<InferenceRequest*, int64_t> model;  // request to deadline
  int64_t now_ns = 0;
  for (int step = 0; step < 20000; ++step) {
    now_ns += draw(50);
    const int action = draw(9);
    if (action < 5 && model.size() < 200) {
      const uint64_t timeout_us = static_cast<uint64_t>(draw(8));
      auto* request = Push(queue, "r", now_ns, static_cast<uint64_t>(draw(3)), timeout_us);
      model[request] = timeout_us == 0 ? INT64_MAX : now_ns + static_cast<int64_t>(timeout_us) * 1000;
    } else if (action < 7 && !model.empty()) {
      auto victim = std::next(model.begin(), draw(static_cast<int>(model.size()) - 1));
      queue.Remove(*victim->first);
      model.erase(victim);
    } else if (action == 7 && !queue.empty()) {
      auto popped = queue.PopFront();
      ASSERT_EQ(model.erase(popped.get()), 1u);
    } else {
      std::vector<std::unique_ptr<InferenceRequest>> rejected;
      queue.Expire(now_ns, rejected);
      for (auto& request : rejected) {
        ASSERT_LE(model.at(request.get()), now_ns);
        model.erase(request.get());
      }
    }
    int64_t earliest = INT64_MAX;
    for (auto& [request, deadline] : model) earliest = std::min(earliest, deadline);
    ASSERT_EQ(queue.next_deadline_ns(), earliest);
    ASSERT_EQ(queue.size(), model.size());
  }
  Drain(queue);
}

}  // namespace
}  // namespace braid
