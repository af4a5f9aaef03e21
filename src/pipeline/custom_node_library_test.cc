#include "pipeline/custom_node_library.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <thread>

#include "base/testing/places.h"
#include "include/custom_node_interface.h"
#include "pipeline/custom_node_tensors.h"
#include "serving/faults.h"

namespace braid {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// The layout that users' libraries were compiled against.
static_assert(sizeof(CustomNodeTensorPrecision) == 4);
static_assert(sizeof(CustomNodeTensor) == 48);
static_assert(offsetof(CustomNodeTensor, name) == 0 && offsetof(CustomNodeTensor, data) == 8);
static_assert(offsetof(CustomNodeTensor, dataBytes) == 16 && offsetof(CustomNodeTensor, dims) == 24);
static_assert(offsetof(CustomNodeTensor, dimsCount) == 32 && offsetof(CustomNodeTensor, precision) == 40);
static_assert(sizeof(CustomNodeTensorInfo) == 32);
static_assert(offsetof(CustomNodeTensorInfo, name) == 0 && offsetof(CustomNodeTensorInfo, dims) == 8);
static_assert(offsetof(CustomNodeTensorInfo, dimsCount) == 16 &&
              offsetof(CustomNodeTensorInfo, precision) == 24);
static_assert(sizeof(CustomNodeParam) == 16);
static_assert(offsetof(CustomNodeParam, key) == 0 && offsetof(CustomNodeParam, value) == 8);
static_assert(UNSPECIFIED == 0 && FP32 == 1 && FP16 == 2 && U8 == 3 && I8 == 4 && I16 == 5 && U16 == 6 &&
              I32 == 7 && FP64 == 8 && I64 == 9);

std::string NodePath(const std::string& name) {
  return std::string(test_places::kTestNodes) + "/" + name + ".so";
}

Tensor Floats(std::string name, const std::vector<float>& values, Shape shape) {
  return {std::move(name), DataType::kFp32, std::move(shape), CopyToHeap(std::as_bytes(std::span(values)))};
}

std::vector<float> Values(const Tensor& tensor) {
  std::vector<float> values(tensor.data.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

// The base text of a code, with which errors begin.
std::string Text(Fault code) { return FaultError(code).message(); }

// Tests with faulty_node, which counts calls.
class FaultyNode : public ::testing::Test {
 protected:
  using Params = std::vector<std::pair<std::string, std::string>>;

  // Maps the library once more, so that its counters outlive the server's use of it.
  FaultyNode() : handle_(dlopen(NodePath("faulty_node").c_str(), RTLD_LAZY | RTLD_LOCAL)) {
    EXPECT_NE(handle_, nullptr) << dlerror();
  }
  ~FaultyNode() override {
    EXPECT_EQ(Count("LiveMemory"), 0);
    EXPECT_EQ(Count("LiveManagers"), 0);
    dlclose(handle_);
  }

  long Count(const char* what) const { return reinterpret_cast<long (*)()>(dlsym(handle_, what))(); }
  const void* LastInput() const { return reinterpret_cast<const void* (*)()>(dlsym(handle_, "LastInput"))(); }

  static Result<std::shared_ptr<const CustomNodeCode>> Make(Params params) {
    auto library = CustomNodeLibrary::Open("faulty", NodePath("faulty_node"));
    EXPECT_TRUE(library.ok()) << library.status();
    return (*library)->CodeFor("n", std::move(params));
  }
  static std::shared_ptr<const CustomNodeCode> Code(Params params) {
    auto code = Make(std::move(params));
    EXPECT_TRUE(code.ok()) << code.status();
    return std::move(code).value();
  }
  static Result<std::vector<Tensor>> Execute(const std::string& fault) {
    return Code({{"fault", fault}, {"addend", "1"}})->Execute({Floats("in", {1, 2, 3, 4}, {1, 2, 2})});
  }
  // Expects an execution with `fault` to fail and to leave nothing behind.
  void ExpectFailure(const std::string& fault, Fault code, const std::string& details) {
    SCOPED_TRACE(fault);
    const auto outputs = Execute(fault);
    ASSERT_FALSE(outputs.ok());
    EXPECT_EQ(outputs.status(), FaultError(code, details));
    EXPECT_EQ(outputs.status().code(), StatusCode::kInternal);
    EXPECT_EQ(outputs.status().fault(), code);
    EXPECT_EQ(Count("LiveMemory"), 0);
    EXPECT_EQ(Count("LiveManagers"), 0);
  }
  void ExpectNoMetadata(const std::string& fault, Fault code) {
    SCOPED_TRACE(fault);
    const auto node = Code({{"fault", fault}});
    for (const auto& specs : {node->Inputs(), node->Outputs()}) {
      ASSERT_FALSE(specs.ok());
      EXPECT_THAT(specs.status().message(), StartsWith(Text(code) + " - library 'faulty', node 'n'"));
    }
    EXPECT_EQ(Count("LiveMemory"), 0);
  }

 private:
  void* const handle_;
};

TEST_F(FaultyNode, OutputsAreTheLibrarysMemoryUntilTheLastHolderLetsGo) {
  auto code = Code({{"addend", "0.5"}});
  const std::vector<Tensor> inputs = {Floats("other", {7}, {1}), Floats("in", {1, 2, 3, 4}, {1, 4})};
  auto outputs = code->Execute(inputs);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_EQ(LastInput(), inputs[1].data.data());  // no copy
  // The array and the three dims were returned at once.
  EXPECT_EQ(Count("Releases"), 4);
  EXPECT_EQ(Count("LiveMemory"), 3);
  ASSERT_EQ(outputs->size(), 3u);
  const Tensor& sum = (*outputs)[1];
  EXPECT_EQ(sum.name, "sum");
  EXPECT_EQ(sum.type, DataType::kFp32);
  EXPECT_THAT(sum.shape, ElementsAre(1, 4));
  EXPECT_THAT(Values(sum), ElementsAre(1.5, 2.5, 3.5, 4.5));

  Buffer kept = sum.data;
  outputs->clear();
  EXPECT_EQ(Count("LiveMemory"), 1);
  code.reset();
  EXPECT_EQ(Count("LiveManagers"), 1);  // the buffer's memory is released through the manager
  Tensor tensor;
  tensor.data = kept;
  kept = Buffer();
  EXPECT_THAT(Values(tensor), ElementsAre(1.5, 2.5, 3.5, 4.5));
  tensor = Tensor();
  EXPECT_EQ(Count("LiveMemory"), 0);
  EXPECT_EQ(Count("LiveManagers"), 0);
}

TEST_F(FaultyNode, EachNodeHasAManagerOfItsOwn) {
  auto library = CustomNodeLibrary::Open("faulty", NodePath("faulty_node"));
  ASSERT_TRUE(library.ok());
  auto one = (*library)->CodeFor("one", {{"addend", "1"}});
  auto two = (*library)->CodeFor("two", {});
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_EQ(Count("LiveManagers"), 2);
  EXPECT_THAT(Values((*one)->Execute({}).value()[0]), ElementsAre(1));
  EXPECT_THAT(Values((*two)->Execute({}).value()[0]), ElementsAre(0));
  one->reset();
  EXPECT_EQ(Count("LiveManagers"), 1);
}

TEST_F(FaultyNode, MetadataTellsAnySizeAsMinusOne) {
  const auto code = Code({});
  const auto inputs = code->Inputs();
  ASSERT_TRUE(inputs.ok()) << inputs.status();
  ASSERT_EQ(inputs->size(), 2u);
  EXPECT_EQ((*inputs)[0].name, "in");
  EXPECT_EQ((*inputs)[0].type, DataType::kFp32);
  EXPECT_THAT((*inputs)[0].shape, ElementsAre(-1, 10));
  EXPECT_EQ((*inputs)[1].type, DataType::kInvalid);
  EXPECT_EQ(code->Outputs()->front().name, "sum");
  EXPECT_EQ(Count("LiveMemory"), 0);
}

TEST_F(FaultyNode, MetadataWithoutANameIsSkipped) {
  const auto inputs = Code({{"fault", "info_no_name"}})->Inputs();
  ASSERT_TRUE(inputs.ok()) << inputs.status();
  EXPECT_EQ(inputs->size(), 1u);
  EXPECT_EQ(Count("LiveMemory"), 0);
}

TEST_F(FaultyNode, BadMetadataIsRefused) {
  ExpectNoMetadata("info_fail", Fault::kNodeLibraryMetadataFailed);
  ExpectNoMetadata("info_throw", Fault::kNodeLibraryMetadataFailed);
  ExpectNoMetadata("info_no_dims", Fault::kNodeLibraryMetadataFailed);
  ExpectNoMetadata("info_huge", Fault::kNodeLibraryMetadataFailed);
  ExpectNoMetadata("info_null", Fault::kNodeLibraryOutputsCorrupted);
  ExpectNoMetadata("info_zero", Fault::kNodeLibraryOutputsCorruptedCount);
  ExpectNoMetadata("info_absurd", Fault::kNodeLibraryOutputsCorruptedCount);
  EXPECT_EQ(
      Code({{"fault", "info_fail"}})->Inputs().status(),
      FaultError(Fault::kNodeLibraryMetadataFailed, "library 'faulty', node 'n': getInputsInfo returned 3"));
}

TEST_F(FaultyNode, AFailingInitializeFailsTheNode) {
  EXPECT_EQ(
      Make({{"fault", "init_fail"}}).status(),
      FaultError(Fault::kNodeLibraryInitializeFailed, "library 'faulty', node 'n': initialize returned 5"));
  EXPECT_EQ(Make({{"fault", "init_throw"}}).status(),
            FaultError(Fault::kNodeLibraryInitializeFailed,
                       "library 'faulty', node 'n': initialize threw: not today"));
}

TEST_F(FaultyNode, AFailingExecutionSaysHow) {
  const std::string where = "library 'faulty', node 'n'";
  ExpectFailure("fail", Fault::kNodeLibraryExecutionFailed, where + ": execute returned 7");
  ExpectFailure("throw", Fault::kNodeLibraryExecutionFailed, where + ": execute threw: out of luck");
  ExpectFailure("throw_number", Fault::kNodeLibraryExecutionFailed, where + ": execute threw an exception");
}

TEST_F(FaultyNode, CorruptedOutputsAreRefused) {
  const std::string where = "library 'faulty', node 'n'";
  ExpectFailure("null", Fault::kNodeLibraryOutputsCorrupted, where);
  ExpectFailure("none", Fault::kNodeLibraryOutputsCorruptedCount, where);
  ExpectFailure("negative", Fault::kNodeLibraryOutputsCorruptedCount, where);
  ExpectFailure("absurd", Fault::kNodeLibraryOutputsCorruptedCount, where);
}

TEST_F(FaultyNode, EveryFaultOfAnOutputNamesItAndGivesBackAllOfThem) {
  const std::string where = "library 'faulty', node 'n'";
  const std::string sum = where + ", output 'sum'";
  ExpectFailure("no_name", Fault::kNodeLibraryOutputMissingName, where);
  ExpectFailure("no_dims", Fault::kNodeLibraryInvalidShape, sum + ": no dims");
  ExpectFailure("scalar", Fault::kNodeLibraryInvalidShape, sum + ": 0 dims");
  ExpectFailure("absurd_dims", Fault::kNodeLibraryInvalidShape, sum + ": 1099511627776 dims");
  ExpectFailure("huge_dims", Fault::kNodeLibraryInvalidShape, sum + ": a dimension of 18446744073709551615");
  ExpectFailure("overflow", Fault::kNodeLibraryInvalidShape,
                sum + ": too many elements: [8589934592,8589934592]");
  ExpectFailure("unspecified", Fault::kNodeLibraryInvalidPrecision, sum);
  ExpectFailure("unknown_precision", Fault::kNodeLibraryInvalidPrecision, sum);
  ExpectFailure("wrong_bytes", Fault::kNodeLibraryInvalidContentSize,
                sum + ": Expected: 16 bytes; Actual: 20 bytes");
  ExpectFailure("no_data", Fault::kNodeLibraryInvalidContentSize, sum + ": no data");
}

TEST_F(FaultyNode, AnEmptyOutputIsGoodWithDataAndWithout) {
  for (const char* fault : {"empty", "empty_no_data"}) {
    const auto outputs = Execute(fault);
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    EXPECT_THAT((*outputs)[1].shape, ElementsAre(0, 2, 2));
    EXPECT_EQ((*outputs)[1].data.size(), 0u);
  }
}

TEST_F(FaultyNode, ManyThreadsUseOneNode) {
  const auto code = Code({{"addend", "1"}});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&code, t] {
      for (int i = 0; i < 200; ++i) {
        const float value = static_cast<float>(1000 * t + i);
        const auto outputs = code->Execute({Floats("in", {value}, {1})});
        ASSERT_TRUE(outputs.ok());
        ASSERT_THAT(Values((*outputs)[2]), ElementsAre(value + 1));
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST(CustomNodeLibrary, ALibraryOfTheOldInterfaceWorks) {
  auto library = CustomNodeLibrary::Open("old", NodePath("old_api_node"));
  ASSERT_TRUE(library.ok()) << library.status();
  const auto code = (*library)->CodeFor("n", {});
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_THAT((*code)->Inputs()->front().shape, ElementsAre(-1));
  EXPECT_EQ((*code)->Outputs()->front().name, "out");
  const std::vector<int32_t> values = {1, -2, 3};
  const auto outputs =
      (*code)->Execute({{"in", DataType::kInt32, {3}, CopyToHeap(std::as_bytes(std::span(values)))}});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  std::vector<int32_t> doubled(3);
  ASSERT_EQ((*outputs)[0].data.size(), 12u);
  std::memcpy(doubled.data(), (*outputs)[0].data.data(), 12);
  EXPECT_THAT(doubled, ElementsAre(2, -4, 6));
}

TEST(CustomNodeLibrary, AMissingFunctionIsNamed) {
  const auto unfinished = CustomNodeLibrary::Open("unfinished", NodePath("unfinished_node"));
  EXPECT_EQ(unfinished.status(), FaultError(Fault::kNodeLibraryLoadFailedSymbol,
                                            "library 'unfinished', '" + NodePath("unfinished_node") +
                                                "': function 'getInputsInfo' is missing"));
  EXPECT_THAT(CustomNodeLibrary::Open("half", NodePath("half_old_node")).status().message(),
              HasSubstr("function 'deinitialize' is missing"));
}

TEST(CustomNodeLibrary, BadPathsAndFilesAreRefused) {
  const auto message = [](const std::string& path) {
    return CustomNodeLibrary::Open("l", path).status().message();
  };
  EXPECT_EQ(message("lib.so"),
            Text(Fault::kPathInvalid) + " - library 'l', 'lib.so': the path is not absolute");
  EXPECT_EQ(message("/a/../lib.so"),
            Text(Fault::kPathInvalid) + " - library 'l', '/a/../lib.so': the path contains '..'");
  EXPECT_EQ(message(""), Text(Fault::kPathInvalid) + " - library 'l', '': the path is not absolute");
  const std::string open = Text(Fault::kNodeLibraryLoadFailedOpen);
  EXPECT_EQ(message("/nowhere/lib.so"),
            open + " - library 'l', '/nowhere/lib.so': No such file or directory");
  EXPECT_EQ(message("/dev"), open + " - library 'l', '/dev': not a file");
  EXPECT_THAT(message("/proc/self/status"), StartsWith(open));
}

TEST(CustomNodeTensors, EachPrecisionHasItsType) {
  const std::pair<DataType, CustomNodeTensorPrecision> pairs[] = {
      {DataType::kFp32, FP32}, {DataType::kFp16, FP16}, {DataType::kUint8, U8},
      {DataType::kInt8, I8},   {DataType::kInt16, I16}, {DataType::kUint16, U16},
      {DataType::kInt32, I32}, {DataType::kFp64, FP64}, {DataType::kInt64, I64}};
  for (const auto& [type, precision] : pairs) {
    EXPECT_EQ(PrecisionOf(type), precision);
    EXPECT_EQ(TypeOf(precision), type);
  }
  for (DataType type : {DataType::kInvalid, DataType::kBool, DataType::kUint32, DataType::kUint64,
                        DataType::kBytes, DataType::kBf16}) {
    EXPECT_EQ(PrecisionOf(type), UNSPECIFIED);
  }
  EXPECT_EQ(TypeOf(UNSPECIFIED), DataType::kInvalid);
}

}  // namespace
}  // namespace braid
