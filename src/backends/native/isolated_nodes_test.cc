#include "backends/native/isolated_nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <utility>

#include "backends/native/testing/test_workers.h"
#include "base/clock.h"
#include "base/testing/places.h"
#include "serving/faults.h"

namespace braid {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Params = std::vector<std::pair<std::string, std::string>>;

std::string NodePath(const std::string& name) {
  return std::string(test_places::kTestNodes) + "/" + name + ".so";
}

Tensor Floats(const std::vector<float>& values) {
  return {"in",
          DataType::kFp32,
          {static_cast<int64_t>(values.size())},
          CopyToHeap(std::as_bytes(std::span(values)))};
}

std::vector<float> Values(const Tensor& tensor) {
  std::vector<float> values(tensor.data.size() / sizeof(float));
  std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

class IsolatedNodes : public ::testing::Test {
 protected:
  Result<std::shared_ptr<const CustomNodeLibrary>> Open(const std::string& path) {
    return OpenIsolatedLibrary(workers_, "l", path, 4);
  }
  Result<std::shared_ptr<const CustomNodeCode>> Make(const std::string& fault) {
    BRAID_ASSIGN_OR_RETURN(const auto library, Open(NodePath("faulty_node")));
    return library->CodeFor("n", {{"fault", fault}, {"addend", "0.5"}});
  }
  // Returns the status of the same node inside this process.
  static Status StatusInside(const std::string& fault) {
    auto library = CustomNodeLibrary::Open("l", NodePath("faulty_node"));
    auto code = (*library)->CodeFor("n", {{"fault", fault}});
    if (!code.ok()) return code.status();
    if (auto inputs = (*code)->Inputs(); !inputs.ok()) return inputs.status();
    return (*code)->Execute({Floats({1})}).status();
  }

  const std::unique_ptr<Logger> log_ = std::move(Logger::Create({})).value();
  TestWorkers test_workers_{*log_};
  NativeWorkers& workers_ = test_workers_.Make();
};

TEST_F(IsolatedNodes, AnswersAsInsideTheServer) {
  auto code = Make("none so far");
  ASSERT_TRUE(code.ok()) << code.status();
  auto inside = CustomNodeLibrary::Open("l", NodePath("faulty_node"));
  const auto expected = (*(*inside)->CodeFor("n", {}))->Inputs();
  const auto inputs = (*code)->Inputs();
  ASSERT_TRUE(inputs.ok()) << inputs.status();
  ASSERT_EQ(inputs->size(), expected->size());
  for (size_t i = 0; i < inputs->size(); ++i) {
    EXPECT_EQ((*inputs)[i].name, (*expected)[i].name);
    EXPECT_EQ((*inputs)[i].type, (*expected)[i].type);
    EXPECT_EQ((*inputs)[i].shape, (*expected)[i].shape);
  }
  EXPECT_EQ((*code)->Outputs()->size(), expected->size());

  // Of several sizes: some travel in the message, some in their own memory.
  for (const size_t size : {1, 100, 100'000}) {
    const auto outputs = (*code)->Execute({Floats(std::vector<float>(size, 2))});
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    ASSERT_EQ(outputs->size(), 3u);
    EXPECT_EQ((*outputs)[1].name, "sum");
    EXPECT_EQ(Values((*outputs)[1]), std::vector<float>(size, 2.5));
  }
}

TEST_F(IsolatedNodes, InputsThatLieInItsMemoryAreReadThere) {
  const auto code = Make("").value();
  ASSERT_NE(code->input_allocator(), nullptr);
  Tensor input = Floats(std::vector<float>(100'000, 3));
  Buffer data = code->input_allocator()->Allocate(input.data.size()).value();
  std::memcpy(data.mutable_data(), input.data.data(), data.size());
  input.data = std::move(data);
  const auto outputs = code->Execute({input});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_EQ(Values((*outputs)[1]), std::vector<float>(100'000, 3.5));
}

TEST_F(IsolatedNodes, SeveralExecutionsAtOnce) {
  const auto code = Make("").value();
  std::vector<std::future<void>> threads;
  for (int thread = 0; thread < 8; ++thread) {
    threads.push_back(std::async(std::launch::async, [&, thread] {
      for (int i = 0; i < 50; ++i) {
        const auto value = static_cast<float>(100 * thread + i);
        const auto outputs = code->Execute({Floats({value, value})});
        ASSERT_TRUE(outputs.ok()) << outputs.status();
        EXPECT_THAT(Values((*outputs)[2]), ElementsAre(value + 0.5, value + 0.5));
      }
    }));
  }
  for (auto& thread : threads) thread.get();
}

TEST_F(IsolatedNodes, FaultsAreThoseOfTheLibrary) {
  for (const std::string fault :
       {"init_fail", "init_throw", "info_fail", "info_throw", "info_null", "info_absurd", "fail", "throw",
        "throw_number", "null", "none", "no_name", "absurd_dims", "wrong_bytes"}) {
    SCOPED_TRACE(fault);
    const Status expected = StatusInside(fault);
    ASSERT_FALSE(expected.ok());
    auto code = Make(fault);
    Status status = code.status();
    if (status.ok()) status = (*code)->Inputs().status();
    if (status.ok()) status = (*code)->Execute({Floats({1})}).status();
    EXPECT_EQ(status, expected);
    EXPECT_EQ(status.fault(), expected.fault());
  }
}

TEST_F(IsolatedNodes, LibrariesThatCannotBeUsed) {
  for (const std::string& path :
       {std::string("relative.so"), NodePath("missing"), NodePath("unfinished_node")}) {
    SCOPED_TRACE(path);
    const Status expected = CustomNodeLibrary::Open("l", path).status();
    const Status status = Open(path).status();
    EXPECT_EQ(status, expected);
    EXPECT_EQ(status.fault(), expected.fault());
  }
}

TEST_F(IsolatedNodes, ACrashCostsItsExecutionAlone) {
  const auto code = Make("crash_of_666").value();
  for (int i = 0; i < 2; ++i) {
    const Status crashed = code->Execute({Floats({666})}).status();
    EXPECT_EQ(crashed.fault(), Fault::kNodeLibraryExecutionFailed);
    EXPECT_THAT(crashed.message(), HasSubstr("library 'l', node 'n': Stub process 'n' is not healthy."));
    // Calls that arrive during the restart wait.
    const auto outputs = code->Execute({Floats({1})});
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    EXPECT_THAT(Values((*outputs)[1]), ElementsAre(1.5));
  }
}

TEST_F(IsolatedNodes, AStopEndsAnExecutionThatHangs) {
  const auto code = Make("hang").value();
  auto execution = std::async(std::launch::async, [&] { return code->Execute({Floats({1})}).status(); });
  EXPECT_EQ(execution.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  code->Stop(SteadyNowNs() + 100'000'000);
  EXPECT_EQ(execution.get().fault(), Fault::kNodeLibraryExecutionFailed);
  EXPECT_THAT(code->Execute({Floats({1})}).status().message(),
              HasSubstr("library 'l', node 'n': it was stopped"));
}

TEST_F(IsolatedNodes, ACrashWhenANodeIsMadeKeepsItOut) {
  const Status status = Make("init_crash").status();
  EXPECT_EQ(status.fault(), Fault::kNodeLibraryInitializeFailed);
  EXPECT_THAT(status.message(), HasSubstr("library 'l', node 'n': "));
}

}  // namespace
}  // namespace braid
