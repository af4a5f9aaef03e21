// Requests to pipelines.
#include "pipeline/pipeline.h"
#include "base/testing/places.h"

#include "pipeline/session.h"
#include "pipeline/testing/pipeline_fixture.h"
#include "serving/faults.h"

namespace braid {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class PipelineTest : public PipelineFixture {
 protected:
  // Two inputs, their sum.
  void AddSum(const std::string& name, const Shape& shape) {
    AddModel(name, {Spec("A", DataType::kInt32, shape), Spec("B", DataType::kInt32, shape)},
             {Spec("OUT", DataType::kInt32, shape)}, [](const std::vector<Tensor>& inputs) {
               std::vector<int32_t> values = Int32Values(inputs[0]);
               const std::vector<int32_t> other = Int32Values(inputs[1]);
               for (size_t i = 0; i < values.size(); ++i) values[i] += other[i];
               return std::vector{Ints("OUT", inputs[0].shape, values)};
             });
  }
  // IN of any shape -> OUT of the shape [its number of values].
  void AddFlat(const std::string& name, size_t rank) {
    AddModel(name, {Spec("IN", DataType::kInt32, Shape(rank, -1))}, {Spec("OUT", DataType::kInt32, {-1})},
             [](const std::vector<Tensor>& inputs) {
               Tensor output = inputs[0];
               output.name = "OUT";
               output.shape = {static_cast<int64_t>(output.data.size() / 4)};
               return std::vector{output};
             });
  }
};

// ---- nodes ----

TEST_F(PipelineTest, RunsOneNode) {
  AddPlus("m", {-1, 2}, 10);
  auto p = Serve(Entry({"x"}, {"out=a/y"}, {Dl("a", "m", {"IN=request/x"}, {"OUT=y"})}));
  EXPECT_EQ(p->info().kind, ServableKind::kPipeline);
  EXPECT_EQ(p->info().dialect, Dialect::kOvms);
  EXPECT_EQ(p->info().platform, "OpenVINO");
  EXPECT_EQ(p->info().version, 1);
  KeepingSink sink;
  Send(p, sink, {Ints("x", {1, 2}, {1, 2})});
  ASSERT_EQ(sink.responses().size(), 1u);
  EXPECT_EQ(sink.responses()[0].model_name, "p");
  EXPECT_EQ(sink.responses()[0].model_version, 1);
  const Tensor& output = Named(sink.responses()[0].outputs, "out");
  EXPECT_EQ(output.shape, (Shape{1, 2}));
  EXPECT_THAT(Int32Values(output), ElementsAre(11, 12));
  EXPECT_EQ(p->gate().inside(), 0u);
  EXPECT_EQ(p->statistics().Snapshot().success.count, 1u);
  EXPECT_EQ(p->statistics().Snapshot().execution_count, 1u);
}

TEST_F(PipelineTest, RunsAChainWithoutRecursion) {
  AddPlus("m", {-1}, 1);
  const auto name = [](int i) { return std::string("n").append(std::to_string(i)); };
  std::vector<OvmsNodeConfig> nodes;
  // In reverse order, so that no node can run before the nodes that are read after it.
  for (int i = 999; i >= 0; --i) {
    std::string input("IN=");
    input.append(i == 0 ? "request/x" : name(i - 1).append("/y"));
    nodes.push_back(Dl(name(i), "m", {input}, {"OUT=y"}));
  }
  auto p = Serve(Entry({"x"}, {"out=n999/y"}, nodes));
  EXPECT_THAT(Int32Values(Run(p, {Ints("x", {1}, {0})})[0]), ElementsAre(1000));
}

TEST_F(PipelineTest, BranchesRunBesideEachOther) {
  auto left = AddModel("left", {Spec("IN")}, {Spec("OUT")});
  auto right = AddModel("right", {Spec("IN")}, {Spec("OUT")});
  AddSum("sum", {-1});
  auto p = Serve(
      Entry({"x"}, {"out=s/y"},
            {Dl("l", "left", {"IN=request/x"}, {"OUT=y"}), Dl("r", "right", {"IN=request/x"}, {"OUT=y"}),
             Dl("s", "sum", {"A=l/y", "B=r/y"}, {"OUT=y"})}));
  KeepingSink sink;
  Send(p, sink, {Ints("x", {1}, {5})});
  ASSERT_EQ(left->kept(), 1u);
  ASSERT_EQ(right->kept(), 1u);
  AnswerPlus(*right->Take(), 100);
  EXPECT_FALSE(sink.ended());
  AnswerPlus(*left->Take(), 1000);
  EXPECT_THAT(sink.Values("out"), ElementsAre(std::vector<int32_t>{1110}));
}

TEST_F(PipelineTest, OneOutputHasSeveralNames) {
  AddPlus("m", {-1}, 1);
  AddSum("sum", {-1});
  auto p = Serve(Entry(
      {"x"}, {"first=a/y", "second=a/z", "third=s/y"},
      {Dl("a", "m", {"IN=request/x"}, {"OUT=y", "OUT=z"}), Dl("s", "sum", {"A=a/y", "B=a/z"}, {"OUT=y"})}));
  auto outputs = Run(p, {Ints("x", {1}, {5})});
  ASSERT_EQ(outputs.size(), 3u);
  EXPECT_EQ(outputs[0].name, "first");
  EXPECT_EQ(outputs[1].name, "second");
  EXPECT_THAT(Int32Values(outputs[0]), ElementsAre(6));
  EXPECT_THAT(Int32Values(outputs[1]), ElementsAre(6));
  EXPECT_THAT(Int32Values(outputs[2]), ElementsAre(12));
}

TEST_F(PipelineTest, TextsAreRowsOnTheWay) {
  AddModel("echo", {Spec("IN", DataType::kUint8, {-1, -1})}, {Spec("OUT", DataType::kUint8, {-1, -1})},
           [](const std::vector<Tensor>& inputs) {
             EXPECT_EQ(inputs[0].shape, (Shape{2, 4}));
             EXPECT_EQ(inputs[0].data.text(), std::string_view("abc\0z\0\0\0", 8));
             Tensor output = inputs[0];
             output.name = "OUT";
             return std::vector{output};
           });
  auto p =
      Serve(Entry({"x"}, {"out_string=a/y", "rows=a/y"}, {Dl("a", "echo", {"IN=request/x"}, {"OUT=y"})}));
  constexpr std::string_view kTexts("\3\0\0\0abc\1\0\0\0z", 12);
  const auto outputs =
      Run(p, {Tensor{"x", DataType::kBytes, {2}, CopyToHeap(std::as_bytes(std::span(kTexts)))}});
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_EQ(outputs[0].type, DataType::kBytes);
  EXPECT_EQ(outputs[0].shape, (Shape{2}));
  EXPECT_EQ(outputs[0].data.text(), kTexts);
  EXPECT_EQ(outputs[1].type, DataType::kUint8);
  EXPECT_EQ(outputs[1].shape, (Shape{2, 4}));
}

TEST_F(PipelineTest, WhatGoesStraightThroughIsNotCopied) {
  AddPlus("m", {-1}, 1);
  auto p = Serve(Entry({"x"}, {"out=a/y", "same=request/x"}, {Dl("a", "m", {"IN=request/x"}, {"OUT=y"})}));
  Tensor x = Ints("x", {1}, {5});
  const std::byte* bytes = x.data.data();
  auto outputs = Run(p, {std::move(x)});
  EXPECT_EQ(Named(outputs, "same").data.data(), bytes);
  EXPECT_EQ(p->info().outputs[1].shape, (Shape{-1}));
  EXPECT_EQ(p->info().outputs[1].type, DataType::kInt32);
}

TEST_F(PipelineTest, GivesTheOutputsThatAreAskedFor) {
  AddPlus("m", {-1}, 1);
  auto p = Serve(Entry({"x"}, {"first=a/y", "second=b/y"},
                       {Dl("a", "m", {"IN=request/x"}, {"OUT=y"}), Dl("b", "m", {"IN=a/y"}, {"OUT=y"})}));
  KeepingSink sink;
  auto request = Request(p, sink, {Ints("x", {1}, {5})});
  request->requested_outputs = {"second"};
  p->Infer(std::move(request));
  ASSERT_EQ(sink.responses()[0].outputs.size(), 1u);
  EXPECT_EQ(sink.responses()[0].outputs[0].name, "second");
  KeepingSink unknown;
  request = Request(p, unknown, {Ints("x", {1}, {5})});
  request->requested_outputs = {"third"};
  p->Infer(std::move(request));
  EXPECT_EQ(unknown.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(unknown.status().message(), HasSubstr("third"));
}

TEST_F(PipelineTest, InputsThatNobodyTakesAreNone) {
  AddPlus("m", {-1}, 1);
  auto p = Serve(Entry({"x", "unused"}, {"out=a/y"}, {Dl("a", "m", {"IN=request/x"}, {"OUT=y"})}));
  ASSERT_EQ(p->info().inputs.size(), 1u);
  EXPECT_EQ(p->info().inputs[0].name, "x");
  EXPECT_EQ(Failure(p, {Ints("x", {1}, {5}), Ints("unused", {1}, {5})}).code(), StatusCode::kInvalidArgument);
}

TEST_F(PipelineTest, InputsAreReadIntoTheMemoryOfTheFirstModel) {
  auto m = AddPlus("m", {-1}, 1);
  auto p = Serve(Entry({"x"}, {"out=a/y"}, {Dl("a", "m", {"IN=request/x"}, {"OUT=y"})}));
  ASSERT_TRUE(p->input_allocator().Allocate(8).ok());
  EXPECT_EQ(m->allocator.allocations, 1);
}

TEST_F(PipelineTest, APipelineIsANodeOfAnother) {
  AddPlus("m", {-1}, 1);
  auto inner = Entry({"x"}, {"out=a/y"}, {Dl("a", "m", {"IN=request/x"}, {"OUT=y"})});
  inner.name = "inner";
  Serve(inner);
  auto p = Serve(Entry({"x"}, {"out=b/y"},
                       {Dl("a", "inner", {"x=request/x"}, {"out=y"}), Dl("b", "m", {"IN=a/y"}, {"OUT=y"})}));
  auto chain = std::make_shared<const CallChain>(CallChain{"caller", "caller_0", nullptr, {}});
  KeepingSink sink;
  auto request = Request(p, sink, {Ints("x", {1}, {5})});
  request->call_chain = chain;
  p->Infer(std::move(request));
  EXPECT_THAT(sink.Values("out"), ElementsAre(std::vector<int32_t>{7}));
  // A reload that would make a cycle of them is refused.
  inner.nodes[0] = Dl("a", "p", {"x=request/x"}, {"out=y"});
  EXPECT_EQ(
      Fault(inner),
      "Pipeline definition contains a cycle - pipeline 'p' leads back to 'inner' (pipeline 'inner', node "
      "'a')");
}

TEST_F(PipelineTest, ChildRequestsBelongToTheCaller) {
  auto m = AddModel("m", {Spec("IN")}, {Spec("OUT")});
  auto p = Serve(Entry({"x"}, {"out=a/y"}, {Dl("a", "m", {"IN=request/x"}, {"OUT=y"})}));
  auto chain = std::make_shared<const CallChain>(CallChain{"caller", "caller_0", nullptr, {}});
  KeepingSink sink;
  auto request = Request(p, sink, {Ints("x", {1}, {5})});
  request->call_chain = chain;
  request->model_version = 77;
  p->Infer(std::move(request));
  auto child = m->Take();
  EXPECT_EQ(child->call_chain, chain);
  EXPECT_EQ(child->model_version, 1);
  EXPECT_EQ(child->id, "id");
  EXPECT_THAT(child->requested_outputs, ElementsAre("OUT"));
  AnswerPlus(*child, 0);
}

// ---- demultiplexing ----

TEST_F(PipelineTest, CutsAnAnswerAndGathersItInTheResponse) {
  AddSame("cut", 2);
  AddPlus("m", {-1}, 1);
  auto p = Serve(
      Entry({"x"}, {"out=b/y", "pieces=a/y"},
            {Cutting(Dl("a", "cut", {"IN=request/x"}, {"OUT=y"}), 3), Dl("b", "m", {"IN=a/y"}, {"OUT=y"})}));
  EXPECT_EQ(p->info().outputs[0].shape, (Shape{3, -1}));
  EXPECT_EQ(p->info().outputs[1].shape, (Shape{3, -1}));
  Tensor x = Ints("x", {3, 2}, {0, 1, 10, 11, 20, 21});
  const std::byte* bytes = x.data.data();
  auto outputs = Run(p, {std::move(x)});
  EXPECT_EQ(Named(outputs, "out").shape, (Shape{3, 2}));
  EXPECT_THAT(Int32Values(Named(outputs, "out")), ElementsAre(1, 2, 11, 12, 21, 22));
  // Splitting and stacking again copies nothing.
  EXPECT_EQ(Named(outputs, "pieces").data.data(), bytes);
  EXPECT_THAT(Int32Values(Named(outputs, "pieces")), ElementsAre(0, 1, 10, 11, 20, 21));
}

TEST_F(PipelineTest, GathersInANodeInTheOrderOfThePieces) {
  AddSame("cut", 2);
  auto m = AddModel("m", {Spec("IN")}, {Spec("OUT")});
  AddFlat("flat", 2);
  auto p = Serve(
      Entry({"x"}, {"out=g/y"},
            {Cutting(Dl("a", "cut", {"IN=request/x"}, {"OUT=y"}), -1), Dl("b", "m", {"IN=a/y"}, {"OUT=y"}),
             Gathering(Dl("g", "flat", {"IN=b/y"}, {"OUT=y"}), "a")}));
  EXPECT_EQ(p->info().inputs[0].shape, (Shape{-1, -1}));
  EXPECT_EQ(p->info().outputs[0].shape, (Shape{-1}));
  KeepingSink sink;
  Send(p, sink, {Ints("x", {3, 2}, {0, 1, 10, 11, 20, 21})});
  // All shards run concurrently; the last answers first.
  ASSERT_EQ(m->kept(), 3u);
  std::vector<std::unique_ptr<InferenceRequest>> runs;
  while (auto run = m->Take()) runs.push_back(std::move(run));
  for (size_t i = runs.size(); i-- > 0;) {
    EXPECT_FALSE(sink.ended());
    AnswerPlus(*runs[i], 100);
  }
  EXPECT_THAT(sink.Values("out"), ElementsAre(std::vector<int32_t>{100, 101, 110, 111, 120, 121}));
}

TEST_F(PipelineTest, GathersIntoTheMemoryOfTheConsumer) {
  AddSame("cut", 2);
  AddPlus("m", {-1}, 1);
  auto g = AddSame("g", 2);
  auto p = Serve(
      Entry({"x"}, {"out=g/y"},
            {Cutting(Dl("a", "cut", {"IN=request/x"}, {"OUT=y"}), -1), Dl("b", "m", {"IN=a/y"}, {"OUT=y"}),
             Gathering(Dl("g", "g", {"IN=b/y"}, {"OUT=y"}), "a")}));
  Run(p, {Ints("x", {2, 1}, {1, 2})});
  EXPECT_EQ(g->allocator.allocations, 1);
}

TEST_F(PipelineTest, NestedDemultiplexersStandOutermostFirst) {
  AddSame("cut", 3);
  // [k] -> [2,k]: the shard and the shard plus 100.
  AddModel("twice", {Spec("IN", DataType::kInt32, {-1, -1})}, {Spec("OUT", DataType::kInt32, {2, -1, -1})},
           [](const std::vector<Tensor>& inputs) {
             std::vector<int32_t> values = Int32Values(inputs[0]);
             const size_t count = values.size();
             for (size_t i = 0; i < count; ++i) values.push_back(values[i] + 100);
             return std::vector{Ints("OUT", {2, inputs[0].shape[0], inputs[0].shape[1]}, values)};
           });
  auto p = Serve(Entry({"x"}, {"out=b/y"},
                       {Cutting(Dl("a", "cut", {"IN=request/x"}, {"OUT=y"}), 3),
                        Cutting(Dl("b", "twice", {"IN=a/y"}, {"OUT=y"}), 2)}));
  EXPECT_EQ(p->info().outputs[0].shape, (Shape{3, 2, -1, -1}));
  auto outputs = Run(p, {Ints("x", {3, 1, 1}, {1, 2, 3})});
  EXPECT_EQ(outputs[0].shape, (Shape{3, 2, 1, 1}));
  EXPECT_THAT(Int32Values(outputs[0]), ElementsAre(1, 101, 2, 102, 3, 103));
}

TEST_F(PipelineTest, ANodeGathersAndCuts) {
  AddSame("cut", 2);
  AddPlus("m", {-1}, 1);
  auto p = Serve(
      Entry({"x"}, {"out=c/y"},
            {Cutting(Dl("a", "cut", {"IN=request/x"}, {"OUT=y"}), 2), Dl("b", "m", {"IN=a/y"}, {"OUT=y"}),
             Cutting(Gathering(Dl("g", "cut", {"IN=b/y"}, {"OUT=y"}), "a"), 2),
             Dl("c", "m", {"IN=g/y"}, {"OUT=y"})}));
  auto outputs = Run(p, {Ints("x", {2, 2}, {1, 2, 3, 4})});
  EXPECT_EQ(outputs[0].shape, (Shape{2, 2}));
  EXPECT_THAT(Int32Values(outputs[0]), ElementsAre(3, 4, 5, 6));
}

TEST_F(PipelineTest, TheRequestIsCut) {
  AddPlus("m", {1, 2}, 1);
  auto entry = Entry({"x"}, {"out=a/y", "same=request/x"}, {Dl("a", "m", {"IN=request/x"}, {"OUT=y"})});
  entry.demultiply_count = -1;
  auto p = Serve(entry);
  EXPECT_EQ(p->info().inputs[0].shape, (Shape{-1, 1, 2}));
  EXPECT_EQ(p->info().outputs[0].shape, (Shape{-1, 1, 2}));
  EXPECT_EQ(p->info().outputs[1].shape, (Shape{-1, 1, 2}));
  auto outputs = Run(p, {Ints("x", {3, 1, 2}, {1, 2, 3, 4, 5, 6})});
  EXPECT_EQ(outputs[0].shape, (Shape{3, 1, 2}));
  EXPECT_THAT(Int32Values(outputs[0]), ElementsAre(2, 3, 4, 5, 6, 7));
  EXPECT_THAT(Int32Values(outputs[1]), ElementsAre(1, 2, 3, 4, 5, 6));
  // The same, gathered by a node.
  AddFlat("flat", 3);
  entry.outputs = {Connection("out=g/y")};
  entry.nodes.push_back(Gathering(Dl("g", "flat", {"IN=a/y"}, {"OUT=y"}), "request"));
  entry.demultiply_count = 2;
  p = Serve(entry);
  EXPECT_EQ(p->info().inputs[0].shape, (Shape{2, 1, 2}));
  EXPECT_EQ(p->info().outputs[0].shape, (Shape{-1}));
  outputs = Run(p, {Ints("x", {2, 1, 2}, {1, 2, 3, 4})});
  EXPECT_THAT(Int32Values(outputs[0]), ElementsAre(2, 3, 4, 5));
  EXPECT_EQ(Failure(p, {Ints("x", {3, 1, 2}, {1, 2, 3, 4, 5, 6})}).code(), StatusCode::kInvalidArgument);
}

TEST_F(PipelineTest, AThousandAndTenThousandBranches) {
  AddSame("cut", 2);
  AddPlus("m", {-1}, 1);
  AddFlat("flat", 2);
  auto p = Serve(
      Entry({"x"}, {"out=g/y", "sum=h/y"},
            {Cutting(Dl("a", "cut", {"IN=request/x"}, {"OUT=y"}), -1), Dl("b", "m", {"IN=a/y"}, {"OUT=y"}),
             Dl("c", "m", {"IN=b/y"}, {"OUT=y"}), Gathering(Dl("g", "flat", {"IN=c/y"}, {"OUT=y"}), "a"),
             Gathering(Dl("h", "flat", {"IN=b/y"}, {"OUT=y"}), "a")}));
  for (int32_t count : {1000, 10000}) {
    std::vector<int32_t> values(static_cast<size_t>(count));
    for (int32_t i = 0; i < count; ++i) values[static_cast<size_t>(i)] = i;
    const int64_t start_ns = SteadyNowNs();
    auto outputs = Run(p, {Ints("x", {count, 1}, values)});
    RecordProperty(std::string("ms_of_").append(std::to_string(count)),
                   std::to_string((SteadyNowNs() - start_ns) / 1000000));
    for (int32_t& value : values) value += 2;
    EXPECT_EQ(Int32Values(Named(outputs, "out")), values);
  }
  EXPECT_THAT(Failure(p, {Ints("x", {10001, 1}, std::vector<int32_t>(10001))}).message(),
              StartsWith("Too large dynamic demultiplication requested."));
}

// ---- failures ----

TEST_F(PipelineTest, NoPiecesAreNoContent) {
  AddSame("cut", 2);
  auto m = AddPlus("m", {-1}, 1);
  auto p = Serve(
      Entry({"x"}, {"out=b/y"},
            {Cutting(Dl("a", "cut", {"IN=request/x"}, {"OUT=y"}), -1), Dl("b", "m", {"IN=a/y"}, {"OUT=y"})}));
  const Status status = Failure(p, {Ints("x", {0, 2}, {})});
  EXPECT_EQ(status.code(), StatusCode::kAborted);
  EXPECT_EQ(status.fault(), Fault::kPipelineDemultiplexerNoResults);
  EXPECT_EQ(
      status.message(),
      "Pipeline execution aborted due to no content from custom node - node 'a' (pipeline 'p', node 'a')");
  EXPECT_EQ(p->statistics().Snapshot().fail.count, 1u);
}

TEST_F(PipelineTest, AnswersThatCannotBeCutFail) {
  auto cut = AddModel("cut", {Spec("IN")}, {Spec("OUT", DataType::kInt32, {-1, -1})});
  auto p = Serve(Entry({"x"}, {"out=a/y"}, {Cutting(Dl("a", "cut", {"IN=request/x"}, {"OUT=y"}), 2)}));
  auto answer = [&](Tensor output) {
    KeepingSink sink;
    Send(p, sink, {Ints("x", {1}, {5})});
    auto run = cut->Take();
    output.name = "OUT";
    run->Respond(FakeStep::Response({std::move(output)}), true);
    EXPECT_TRUE(sink.ended());
    return sink.status();
  };
  EXPECT_EQ(answer(Ints("", {3, 1}, {1, 2, 3})).message(),
            "Wrong dimension size. Should match demultiply count - node 'a', output 'OUT' of shape [3,1], "
            "expected 2 pieces (pipeline 'p', node 'a')");
  EXPECT_EQ(answer(Ints("", {3, 1}, {1, 2, 3})).code(), StatusCode::kInternal);
  EXPECT_THAT(answer(Ints("", {2}, {1, 2})).message(),
              StartsWith("Wrong number of dimensions in a demultiplexed tensor"));
  Tensor text = Ints("", {2, 1}, {0, 0});
  text.type = DataType::kBytes;
  EXPECT_THAT(answer(std::move(text)).message(), StartsWith("Demultiplexing of string tensors"));
  EXPECT_TRUE(answer(Ints("", {2, 1}, {1, 2})).ok());
}

TEST_F(PipelineTest, PiecesThatBecameDifferentAreNotGathered) {
  AddSame("cut", 2);
  // Returns as many values as its input says.
  AddModel("grow", {Spec("IN")}, {Spec("OUT")}, [](const std::vector<Tensor>& inputs) {
    return std::vector{
        Int32Tensor("OUT", std::vector<int32_t>(static_cast<size_t>(Int32Values(inputs[0])[0])))};
  });
  auto p = Serve(Entry(
      {"x"}, {"out=b/y"},
      {Cutting(Dl("a", "cut", {"IN=request/x"}, {"OUT=y"}), 2), Dl("b", "grow", {"IN=a/y"}, {"OUT=y"})}));
  EXPECT_EQ(
      Failure(p, {Ints("x", {2, 1}, {1, 2})}).message(),
      "Gathered tensor shards dimensions are different - output 'out': INT32 [1] and INT32 [2] (pipeline "
      "'p')");
  EXPECT_EQ(Run(p, {Ints("x", {2, 1}, {2, 2})})[0].shape, (Shape{2, 2}));
}

TEST_F(PipelineTest, TheFirstErrorEndsIt) {
  AddSame("cut", 2);
  auto m = AddModel("m", {Spec("IN")}, {Spec("OUT")});
  auto p = Serve(Entry({"x"}, {"out=c/y"},
                       {Cutting(Dl("a", "cut", {"IN=request/x"}, {"OUT=y"}), -1),
                        Dl("b", "m", {"IN=a/y"}, {"OUT=y"}), Dl("c", "m", {"IN=b/y"}, {"OUT=y"})}));
  KeepingSink sink;
  Send(p, sink, {Ints("x", {3, 1}, {1, 2, 3})});
  ASSERT_EQ(m->kept(), 3u);
  auto first = m->Take();
  auto second = m->Take();
  auto third = m->Take();
  AnswerPlus(*first, 1);
  ASSERT_EQ(m->kept(), 1u);
  second->Fail(FaultError(Fault::kInvalidShape, "bad"));
  ASSERT_TRUE(sink.ended());
  EXPECT_EQ(sink.status().message(), "Invalid input shape - bad (pipeline 'p', node 'b')");
  EXPECT_EQ(sink.status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(third->cancelled());
  // A late answer starts nothing.
  AnswerPlus(*third, 1);
  EXPECT_EQ(m->kept(), 1u);
  AnswerPlus(*m->Take(), 1);
  EXPECT_EQ(m->kept(), 0u);
  EXPECT_EQ(p->gate().inside(), 0u);
}

TEST_F(PipelineTest, AModelThatLeavesOutAnOutputFails) {
  AddModel("m", {Spec("IN")}, {Spec("OUT"), Spec("MORE")}, [](const std::vector<Tensor>& inputs) {
    std::vector<Tensor> outputs{inputs[0]};
    outputs[0].name = "OUT";
    return outputs;
  });
  auto p = Serve(Entry({"x"}, {"out=a/y"}, {Dl("a", "m", {"IN=request/x"}, {"OUT=y", "MORE=z"})}));
  EXPECT_EQ(Run(p, {Ints("x", {1}, {1})}).size(), 1u);
  p = Serve(Entry({"x"}, {"out=a/y", "more=a/z"}, {Dl("a", "m", {"IN=request/x"}, {"OUT=y", "MORE=z"})}));
  EXPECT_EQ(Failure(p, {Ints("x", {1}, {1})}).message(),
            "Internal server error - the model did not return output 'MORE' (pipeline 'p', node 'a')");
}

TEST_F(PipelineTest, ACancelledRequestEndsInTheMiddle) {
  AddSame("cut", 2);
  auto m = AddModel("m", {Spec("IN")}, {Spec("OUT")});
  auto p = Serve(Entry({"x"}, {"out=c/y"},
                       {Cutting(Dl("a", "cut", {"IN=request/x"}, {"OUT=y"}), -1),
                        Dl("b", "m", {"IN=a/y"}, {"OUT=y"}), Dl("c", "m", {"IN=b/y"}, {"OUT=y"})}));
  KeepingSink sink;
  auto request = Request(p, sink, {Ints("x", {4, 1}, {1, 2, 3, 4})});
  auto cancellation = request->cancellation;
  p->Infer(std::move(request));
  ASSERT_EQ(m->kept(), 4u);
  AnswerPlus(*m->Take(), 1);
  cancellation->Cancel();
  auto run = m->Take();
  EXPECT_TRUE(run->cancelled());
  run->Fail(CancelledError("cancelled"));
  ASSERT_TRUE(sink.ended());
  EXPECT_EQ(sink.status().code(), StatusCode::kCancelled);
  while (auto left = m->Take()) left->Fail(CancelledError("cancelled"));
  EXPECT_EQ(p->gate().inside(), 0u);
}

TEST_F(PipelineTest, AStopEndsWhatDoesNotEnd) {
  auto m = AddModel("m", {Spec("IN")}, {Spec("OUT")});
  auto p = Serve(Entry({"x"}, {"out=a/y"}, {Dl("a", "m", {"IN=request/x"}, {"OUT=y"})}));
  KeepingSink sink;
  Send(p, sink, {Ints("x", {1}, {1})});
  p->gate().Close();
  p->Stop(SteadyNowNs());
  ASSERT_TRUE(sink.ended());
  EXPECT_EQ(sink.status().code(), StatusCode::kUnavailable);
  AnswerPlus(*m->Take(), 1);
}

TEST_F(PipelineTest, MoreFlowsThanCanBeKeptAreRefused) {
  AddSame("cut", 2);
  AddModel("many", {Spec("IN")}, {Spec("OUT", DataType::kInt32, {300, 1})}, [](const std::vector<Tensor>&) {
    return std::vector{Ints("OUT", {300, 1}, std::vector<int32_t>(300))};
  });
  auto m = AddModel("m", {Spec("IN")}, {Spec("OUT")});
  auto p = Serve(
      Entry({"x"}, {"out=c/y"},
            {Cutting(Dl("a", "cut", {"IN=request/x"}, {"OUT=y"}), 300),
             Cutting(Dl("b", "many", {"IN=a/y"}, {"OUT=y"}), 300), Dl("c", "m", {"IN=b/y"}, {"OUT=y"})}));
  KeepingSink sink;
  Send(p, sink, {Ints("x", {300, 1}, std::vector<int32_t>(300))});
  ASSERT_TRUE(sink.ended());
  EXPECT_EQ(sink.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(sink.status().message(), StartsWith("more than 65536 pieces of node 'b'"));
  while (auto run = m->Take()) AnswerPlus(*run, 0);
}

// ---- memory ----

TEST_F(PipelineTest, AnIntermediateTensorGoesWithItsLastReader) {
  AddSame("cut", 2);
  auto m = AddModel("m", {Spec("IN")}, {Spec("OUT")});
  auto n = AddModel("n", {Spec("IN")}, {Spec("OUT")});
  auto p = Serve(Entry({"x"}, {"out=c/y"},
                       {Cutting(Dl("a", "cut", {"IN=request/x"}, {"OUT=y"}), 2),
                        Dl("b", "m", {"IN=a/y"}, {"OUT=y"}), Dl("c", "n", {"IN=b/y"}, {"OUT=y"})}));
  KeepingSink sink;
  Tensor x = Ints("x", {2, 1}, {1, 2});
  const Buffer held = x.data;
  Send(p, sink, {std::move(x)});
  // Referenced by both shards and the test.
  EXPECT_EQ(held.owner()->references(), 3u);
  AnswerPlus(*m->Take(), 1);
  EXPECT_EQ(held.owner()->references(), 2u);
  AnswerPlus(*m->Take(), 1);
  EXPECT_EQ(held.owner()->references(), 1u);
  // The second model has the only reference to the first model's answers.
  auto run = n->Take();
  EXPECT_TRUE(run->inputs[0].data.owner()->unique());
  AnswerPlus(*run, 1);
  AnswerPlus(*n->Take(), 1);
  EXPECT_THAT(sink.Values("out"), ElementsAre(std::vector<int32_t>{3, 4}));
}

TEST_F(PipelineTest, WhatIsNotWantedIsNotKept) {
  AddPlus("m", {-1}, 1);
  auto last = AddModel("last", {Spec("IN")}, {Spec("OUT")});
  auto p = Serve(Entry({"x"}, {"mid=a/y", "out=b/y"},
                       {Dl("a", "m", {"IN=request/x"}, {"OUT=y"}), Dl("b", "last", {"IN=a/y"}, {"OUT=y"})}));
  KeepingSink sink;
  auto request = Request(p, sink, {Ints("x", {1}, {1})});
  request->requested_outputs = {"out"};
  p->Infer(std::move(request));
  auto run = last->Take();
  EXPECT_TRUE(run->inputs[0].data.owner()->unique());
  AnswerPlus(*run, 1);
  EXPECT_TRUE(sink.ended());
}

// ---- precision ----

TEST_F(PipelineTest, PrecisionsAreConvertedWhereThatIsAskedFor) {
  AddModel("float", {Spec("IN", DataType::kFp32, {-1})}, {Spec("OUT", DataType::kFp32, {-1})},
           [](const std::vector<Tensor>& inputs) {
             std::vector<float> values(inputs[0].data.size() / 4);
             std::memcpy(values.data(), inputs[0].data.data(), inputs[0].data.size());
             for (float& value : values) value *= 1.5f;
             Tensor output = inputs[0];
             output.name = "OUT";
             output.data = CopyToHeap(std::as_bytes(std::span(values)));
             return std::vector{output};
           });
  AddPlus("int", {-1}, 1);
  auto entry = Entry({"x"}, {"out=b/y", "first=c/y"},
                     {Dl("c", "int", {"IN=request/x"}, {"OUT=y"}),
                      Dl("a", "float", {"IN=request/x"}, {"OUT=y"}), Dl("b", "int", {"IN=a/y"}, {"OUT=y"})});
  entry.convert_precision = true;
  auto p = Serve(entry);
  EXPECT_EQ(p->info().inputs[0].type, DataType::kInt32);
  auto outputs = Run(p, {Ints("x", {2}, {2, 5})});
  EXPECT_THAT(Int32Values(Named(outputs, "out")), ElementsAre(4, 8));
  EXPECT_THAT(Int32Values(Named(outputs, "first")), ElementsAre(3, 6));
}

// ---- lifetimes ----

TEST_F(PipelineTest, IsReadyWhileItsModelsAre) {
  AddPlus("m", {-1}, 1);
  auto p = Serve(Entry({"x"}, {"out=a/y"}, {Dl("a", "m", {"IN=request/x"}, {"OUT=y"})}));
  EXPECT_TRUE(p->readiness().ready);
  EXPECT_EQ(p->uses(), (std::vector<ServableUse>{{"m", -1}}));
  catalog_.SetState("m", 1, VersionState::kUnavailable, "unloaded");
  EXPECT_FALSE(p->readiness().ready);
  EXPECT_EQ(p->readiness().reason, "pipeline 'p' needs model 'm', which has no loaded version");
  EXPECT_EQ(catalog_.Index(true).size(), 0u);
  const Status status = Failure(p, {Ints("x", {1}, {1})});
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(status.message(),
            "Pipeline is not loaded yet - pipeline 'p' needs model 'm', which has no loaded version");
  auto m = AddPlus("m", {-1}, 2);
  EXPECT_TRUE(p->readiness().ready);
  EXPECT_THAT(Int32Values(Run(p, {Ints("x", {1}, {1})})[0]), ElementsAre(3));
  m->set_readiness({false, "being restarted"});
  Readiness asked;
  p->CheckReadiness([&](Readiness readiness) { asked = std::move(readiness); });
  EXPECT_EQ(asked.reason, "pipeline 'p' needs model 'm', which is not ready: being restarted");
}

// ---- custom nodes ----

TEST_F(PipelineTest, RunsCustomNodes) {
  auto library =
      CustomNodeLibrary::Open("faulty", std::string(test_places::kTestNodes).append("/faulty_node.so"));
  ASSERT_TRUE(library.ok()) << library.status();
  libraries_.emplace("lib", std::move(library));
  OvmsNodeConfig node = Dl("a", "", {"in=request/x", "other=request/z"}, {"sum=y"});
  node.type = OvmsNodeConfig::Type::kCustom;
  node.library_name = "lib";
  node.params = {{"addend", "2"}};
  auto p = Serve(Entry({"x", "z"}, {"out=a/y"}, {node}));
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(p->info().inputs[0].type, DataType::kFp32);
  EXPECT_EQ(p->info().inputs[0].shape, (Shape{-1, 10}));
  std::vector<float> values(10, 1.5f);
  Tensor x{"x", DataType::kFp32, {1, 10}, CopyToHeap(std::as_bytes(std::span(values)))};
  // The library does not describe its other input, so any tensor is accepted.
  auto outputs = Run(p, {x, Ints("z", {1, 1}, {7})});
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(outputs[0].shape, (Shape{1, 10}));
  ASSERT_EQ(outputs[0].data.size(), values.size() * sizeof(float));
  std::memcpy(values.data(), outputs[0].data.data(), outputs[0].data.size());
  EXPECT_THAT(values, ::testing::Each(3.5f));
}

}  // namespace
}  // namespace braid
