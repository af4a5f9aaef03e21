#include "ipc/native_messages.h"

#include <gtest/gtest.h>

#include <random>

namespace braid {
namespace {

using Encoded = std::vector<std::byte>;

constexpr char kBytes[] = "0123456789abcdef";

TensorMessage Inline() {
  TensorMessage tensor;
  tensor.name = "in";
  tensor.type = DataType::kFp32;
  tensor.shape = {2, 2};
  tensor.bytes = std::as_bytes(std::span(kBytes, 16));
  return tensor;
}

TensorMessage Lent() {
  TensorMessage tensor;
  tensor.name = "large";
  tensor.type = DataType::kInt64;
  tensor.shape = {1024};
  tensor.place = Place::kSenderMemory;
  tensor.handle = {7, 4096, 8192};
  return tensor;
}

NativeExecuteMessage SomeExecution() {
  NativeExecuteMessage message;
  message.execution_id = uint64_t{1} << 40;
  message.instance = 3;
  message.rows = 5;
  message.requests = {{2, {Inline(), Lent()}}, {3, {}}};
  return message;
}

NativeExecutedMessage SomeAnswer() {
  NativeExecutedMessage message;
  message.execution_id = 9;
  message.input_end_ns = 10;
  message.infer_end_ns = 11;
  message.output_end_ns = 12;
  message.responses.resize(2);
  message.responses[0].outputs = {Lent()};
  message.responses[1] = {static_cast<uint8_t>(StatusCode::kPermissionDenied), 21, "no", {}};
  message.released = {{1, 2, 3}, {4, 5, 6}};
  return message;
}

TEST(NativeMessages, AnExecutionIsReadAsItWasWritten) {
  Encoded out;
  Encode(out, SomeExecution());
  NativeExecuteMessage read;
  read.requests.resize(7);  // the previous content is replaced
  ASSERT_TRUE(Decode(out, read));
  EXPECT_EQ(read.execution_id, uint64_t{1} << 40);
  EXPECT_EQ(read.instance, 3u);
  EXPECT_EQ(read.rows, 5);
  ASSERT_EQ(read.requests.size(), 2u);
  EXPECT_EQ(read.requests[0].rows, 2);
  ASSERT_EQ(read.requests[0].inputs.size(), 2u);
  EXPECT_EQ(read.requests[0].inputs[0].name, "in");
  EXPECT_EQ(read.requests[0].inputs[0].bytes.size(), 16u);
  EXPECT_EQ(read.requests[0].inputs[1].handle.offset, 4096u);
  EXPECT_EQ(read.requests[1].rows, 3);
  EXPECT_TRUE(read.requests[1].inputs.empty());
}

TEST(NativeMessages, AnAnswerIsReadAsItWasWritten) {
  Encoded out;
  Encode(out, SomeAnswer());
  NativeExecutedMessage read;
  ASSERT_TRUE(Decode(out, read));
  EXPECT_EQ(read.execution_id, 9u);
  EXPECT_EQ(read.input_end_ns, 10);
  EXPECT_EQ(read.infer_end_ns, 11);
  EXPECT_EQ(read.output_end_ns, 12);
  ASSERT_EQ(read.responses.size(), 2u);
  EXPECT_EQ(read.responses[0].code, static_cast<uint8_t>(StatusCode::kOk));
  ASSERT_EQ(read.responses[0].outputs.size(), 1u);
  EXPECT_EQ(read.responses[0].outputs[0].handle.size, 8192u);
  EXPECT_EQ(read.responses[1].code, static_cast<uint8_t>(StatusCode::kPermissionDenied))
      << "codes that user code does not know as well";
  EXPECT_EQ(read.responses[1].fault, 21);
  EXPECT_EQ(read.responses[1].error, "no");
  ASSERT_EQ(read.released.size(), 2u);
  EXPECT_EQ(read.released[1].segment, 4u);
  EXPECT_EQ(read.released[1].offset, 5u);
  EXPECT_EQ(read.released[1].size, 6u);
}

template <class Message>
void ExpectRefusedWhenCut(const Message& message) {
  Encoded whole;
  Encode(whole, message);
  for (size_t length = 0; length < whole.size(); ++length) {
    Message read;
    EXPECT_FALSE(Decode(std::span(whole).first(length), read)) << length;
  }
  whole.push_back(std::byte{0});
  Message read;
  EXPECT_FALSE(Decode(whole, read)) << "something is behind it";
}

TEST(NativeMessages, WhatIsCutOffIsRefused) {
  ExpectRefusedWhenCut(SomeExecution());
  ExpectRefusedWhenCut(SomeAnswer());
}

TEST(NativeMessages, ACodeThatThereIsNotIsRefused) {
  NativeExecutedMessage message;
  message.responses.resize(1);
  message.responses[0].code = 14;
  Encoded out;
  Encode(out, message);
  NativeExecutedMessage read;
  EXPECT_FALSE(Decode(out, read));
}

TEST(NativeMessages, ACountThatIsNotTrueAsksForNoMemory) {
  NativeExecuteMessage none;
  Encoded out;
  Encode(out, none);
  out[out.size() - 1] = std::byte{0x7f};  // two thousand million requests
  NativeExecuteMessage read;
  EXPECT_FALSE(Decode(out, read));
  EXPECT_TRUE(read.requests.empty());
}

TEST(NativeMessages, RandomChangesAreRefusedOrRead) {
  std::mt19937 random(18);
  Encoded execute;
  Encode(execute, SomeExecution());
  Encoded executed;
  Encode(executed, SomeAnswer());
  for (int round = 0; round < 20000; ++round) {
    Encoded& original = round % 2 == 0 ? execute : executed;
    Encoded changed = original;
    for (int i = 0; i < 3; ++i)
      changed[1 + random() % (changed.size() - 1)] = static_cast<std::byte>(random());
    NativeExecuteMessage one;
    NativeExecutedMessage other;
    (void)Decode(changed, one);
    (void)Decode(changed, other);
  }
}

}  // namespace
}  // namespace braid
