#include "backends/native/native_function.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <utility>

#include "backends/native/testing/test_workers.h"

namespace braid {
namespace {

using ::testing::ElementsAre;

class NativeCalculatorsTest : public ::testing::Test {
 protected:
  static NativeTask Task(const std::string& path) {
    NativeTask task;
    task.kind = NativeTask::Kind::kCalculators;
    task.library_name = "l";
    task.library_path = path;
    task.most_calls = 2;
    return task;
  }

  const std::unique_ptr<Logger> log_ = std::move(Logger::Create({})).value();
  TestWorkers test_workers_{*log_};
  NativeWorkers& workers_ = test_workers_.Make();
};

// The test worker has one such library.
TEST_F(NativeCalculatorsTest, TheWorkersProgramOpensThem) {
  auto function = NativeFunction::Load(workers_, "l", Task("twice.so"));
  ASSERT_TRUE(function.ok()) << function.status();
  EXPECT_THAT((*function)->answer().calculators, ElementsAre("Twice"));
  const uint8_t bytes[] = {1, 2, 3};
  Tensor tensor;
  tensor.type = DataType::kUint8;
  tensor.shape = {3};
  tensor.data = CopyToHeap(std::as_bytes(std::span(bytes)));
  const auto outputs = (*function)->Call({tensor});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  ASSERT_EQ(outputs->size(), 2U);
  for (const Tensor& output : *outputs) {
    ASSERT_EQ(output.data.size(), sizeof(bytes));
    EXPECT_EQ(std::memcmp(output.data.data(), bytes, sizeof(bytes)), 0);
  }
}

TEST_F(NativeCalculatorsTest, WhatIsWrongWithThemIsTold) {
  EXPECT_EQ(NativeFunction::Load(workers_, "l", Task("other.so")).status(),
            InvalidArgumentError("no library: other.so"));
}

}  // namespace
}  // namespace braid
