#include "scheduling/response_cache.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

Buffer BufferOf(std::string_view text) {
  return CopyToHeap({reinterpret_cast<const std::byte*>(text.data()), text.size()});
}

std::unique_ptr<InferenceRequest> RequestOf(std::string_view data) {
  auto request = std::make_unique<InferenceRequest>();
  request->inputs.push_back({"IN", DataType::kUint8, {static_cast<int64_t>(data.size())}, BufferOf(data)});
  return request;
}

InferenceResponse ResponseOf(std::string_view data) {
  InferenceResponse response;
  response.outputs.push_back({"OUT", DataType::kUint8, {static_cast<int64_t>(data.size())}, BufferOf(data)});
  response.parameters.emplace_back("p", int64_t{3});
  return response;
}

TEST(ResponseCache, GivesBackACopyOfWhatWasKept) {
  ResponseCache cache(1 << 20);
  const auto key = cache.KeyOf(1, *RequestOf("abc"));
  EXPECT_FALSE(cache.Find(key));
  InferenceResponse response = ResponseOf("xyz");
  cache.Insert(key, 1, response);
  response.outputs[0].data.mutable_data()[0] = std::byte{0};
  const auto found = cache.Find(key);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->outputs[0].name, "OUT");
  EXPECT_EQ(found->outputs[0].data.text(), "xyz");
  EXPECT_EQ(found->parameters.size(), 1u);
}

TEST(ResponseCache, TheKeyHoldsAllThatTheResponseDependsOnAndNoMore) {
  ResponseCache cache(1 << 20);
  const auto key = cache.KeyOf(1, *RequestOf("abc"));
  auto same = RequestOf("abc");
  same->id = "17";
  same->timeout_us = 5;
  same->priority = 2;
  EXPECT_EQ(cache.KeyOf(1, *same), key);

  EXPECT_NE(cache.KeyOf(2, *RequestOf("abc")), key);
  EXPECT_NE(cache.KeyOf(1, *RequestOf("abd")), key);
  const auto differs = [&](const std::function<void(InferenceRequest&)>& change) {
    auto other = RequestOf("abc");
    change(*other);
    return cache.KeyOf(1, *other) != key;
  };
  EXPECT_TRUE(differs([](auto& r) { r.inputs[0].name = "IM"; }));
  EXPECT_TRUE(differs([](auto& r) { r.inputs[0].type = DataType::kInt8; }));
  EXPECT_TRUE(differs([](auto& r) { r.inputs[0].shape = {1, 3}; }));
  EXPECT_TRUE(differs([](auto& r) { r.requested_outputs = {"OUT"}; }));
  EXPECT_TRUE(differs([](auto& r) { r.parameters.emplace_back("a", true); }));
  // A part that moves from one text to the next.
  auto a = RequestOf("abc");
  auto b = RequestOf("abc");
  a->requested_outputs = {"AB", "C"};
  b->requested_outputs = {"A", "BC"};
  EXPECT_NE(cache.KeyOf(1, *a), cache.KeyOf(1, *b));
}

TEST(ResponseCache, TheLeastRecentlyUsedLeavesForANewOne) {
  ResponseCache cache(3100);
  const std::string large(500, 'x');  // three of these fit
  ResponseCache::Key keys[4];
  for (int i = 0; i < 4; ++i)
    keys[i] = cache.KeyOf(1, *RequestOf(std::string(1, static_cast<char>('a' + i))));
  for (int i = 0; i < 3; ++i) cache.Insert(keys[i], 1, ResponseOf(large));
  EXPECT_EQ(cache.usage().entries, 3u);
  EXPECT_TRUE(cache.Find(keys[0]));
  cache.Insert(keys[3], 1, ResponseOf(large));
  EXPECT_EQ(cache.usage().entries, 3u);
  EXPECT_LE(cache.usage().bytes, 3100u);
  EXPECT_TRUE(cache.Find(keys[0]));
  EXPECT_FALSE(cache.Find(keys[1]));
  EXPECT_TRUE(cache.Find(keys[2]));
  EXPECT_TRUE(cache.Find(keys[3]));
}

TEST(ResponseCache, WhatIsTooLargeIsNotKept) {
  ResponseCache cache(1000);
  const auto key = cache.KeyOf(1, *RequestOf("abc"));
  cache.Insert(key, 1, ResponseOf(std::string(2000, 'x')));
  EXPECT_FALSE(cache.Find(key));
  EXPECT_EQ(cache.usage().bytes, 0u);
}

TEST(ResponseCache, AModelThatGoesTakesItsEntriesAlong) {
  ResponseCache cache(1 << 20);
  const uint64_t first = cache.NextLoad();
  const uint64_t second = cache.NextLoad();
  EXPECT_NE(first, second);
  const auto a = cache.KeyOf(first, *RequestOf("abc"));
  const auto b = cache.KeyOf(second, *RequestOf("abc"));
  cache.Insert(a, first, ResponseOf("1"));
  cache.Insert(b, second, ResponseOf("2"));
  cache.Forget(first);
  EXPECT_FALSE(cache.Find(a));
  ASSERT_TRUE(cache.Find(b));
  EXPECT_EQ(cache.Find(b)->outputs[0].data.text(), "2");
  EXPECT_EQ(cache.usage().entries, 1u);
}

}  // namespace
}  // namespace braid
