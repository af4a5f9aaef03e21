// Every fault of a definition, with its text.
#include "pipeline/pipeline_check.h"

#include "pipeline/testing/pipeline_fixture.h"

namespace braid {
namespace {

using ::testing::HasSubstr;

class PipelineCheck : public PipelineFixture {
 protected:
  PipelineCheck() {
    AddSame("vector", 1);
    AddSame("matrix", 2);
    AddSame("text", 1, DataType::kBytes);
    AddSame("texts", 2, DataType::kBytes);
    AddModel("fixed", {Spec("IN", DataType::kInt32, {1, 10})}, {Spec("OUT", DataType::kInt32, {4, 10})});
    AddModel("sum", {Spec("A"), Spec("B")}, {Spec("OUT")});
    AddModel("float", {Spec("IN", DataType::kFp32)}, {Spec("OUT", DataType::kFp32)});
  }

  // The fault's text without the base text of its code.
  void ExpectFault(const OvmsPipelineConfig& entry, braid::Fault code, const std::string& details) {
    const Status status = Make(entry).status();
    const Status expected = FaultError(code, details);
    EXPECT_EQ(status.message(), expected.message());
    EXPECT_EQ(status.code(), expected.code());
    EXPECT_EQ(status.fault(), expected.fault());
  }
};

OvmsNodeConfig Vector(const std::string& name, const std::string& from) {
  return Dl(name, "vector", {"IN=" + from}, {"OUT=y"});
}
OvmsNodeConfig Matrix(const std::string& name, const std::string& from) {
  return Dl(name, "matrix", {"IN=" + from}, {"OUT=y"});
}

TEST_F(PipelineCheck, NameOfAModel) {
  auto entry = Entry({"x"}, {"out=a/y"}, {Vector("a", "request/x")});
  entry.name = "matrix";
  ExpectFault(entry, Fault::kPipelineNameOccupied, "pipeline 'matrix'");
}

TEST_F(PipelineCheck, Libraries) {
  libraries_.emplace("broken", FaultError(Fault::kNodeLibraryLoadFailedOpen, "/x.so"));
  OvmsNodeConfig node = Vector("a", "request/x");
  node.type = OvmsNodeConfig::Type::kCustom;
  node.library_name = "none";
  EXPECT_EQ(
      Fault(Entry({"x"}, {"out=a/y"}, {node})),
      FaultError(Fault::kPipelineInvalidNodeLibrary,
                 "library 'none' is not in the custom_node_library_config_list (pipeline 'p', node 'a')")
          .message());
  node.library_name = "broken";
  EXPECT_EQ(
      Fault(Entry({"x"}, {"out=a/y"}, {node})),
      FaultError(Fault::kPipelineInvalidNodeLibrary,
                 "library 'broken': Custom node library could not be opened - /x.so (pipeline 'p', node "
                 "'a')")
          .message());
}

TEST_F(PipelineCheck, NothingToAnswerWith) {
  ExpectFault(Entry({"x"}, {}, {}), Fault::kPipelineMissingEntryOrExit, "pipeline 'p': it has no outputs");
  ExpectFault(Entry({"x", "x"}, {"out=a/y"}, {Vector("a", "request/x")}),
              Fault::kPipelineAmbiguousInputMetadata, "pipeline 'p', input 'x': is listed twice");
}

TEST_F(PipelineCheck, ADynamicDemultiplexerIsAlone) {
  auto entry =
      Entry({"x"}, {"out=b/y"},
            {Cutting(Dl("a", "m3", {"IN=request/x"}, {"OUT=y"}), -1), Cutting(Matrix("b", "a/y"), 2)});
  AddSame("m3", 3);
  ExpectFault(entry, Fault::kNotImplemented,
              "pipeline 'p': a dynamic demultiplexer must be the only one; there are 'a', 'b'");
  entry.nodes[0].demultiply_count = 2;
  EXPECT_EQ(Fault(entry), "");
  entry.demultiply_count = -1;
  ExpectFault(entry, Fault::kNotImplemented,
              "pipeline 'p': a dynamic demultiplexer must be the only one; there are 'request', 'a', 'b'");
}

TEST_F(PipelineCheck, NodeNames) {
  ExpectFault(Entry({"x"}, {"out=a/y"}, {Vector("a", "request/x"), Vector("a", "request/x")}),
              Fault::kPipelineNodeNameDuplicate, "pipeline 'p', node 'a': number 2 has the name of number 1");
  ExpectFault(Entry({"x"}, {"out=request/x"}, {Vector("request", "request/x")}),
              Fault::kPipelineNodeNameDuplicate,
              "pipeline 'p', node 'request': the name is reserved for the pipeline's inputs or outputs");
  ExpectFault(Entry({"x"}, {"out=a/y"}, {Dl("a", "vector", {"IN=request/x"}, {"OUT=y", "MORE=y"})}),
              Fault::kPipelineMissingDataSource,
              "pipeline 'p', node 'a', output 'MORE': alias 'y' already stands for output 'OUT'");
}

TEST_F(PipelineCheck, Models) {
  EXPECT_EQ(
      Fault(Entry({"x"}, {"out=a/y"}, {Dl("a", "none", {"IN=request/x"}, {"OUT=y"})})),
      FaultError(Fault::kPipelineMissingModel,
                 "model 'none': Request for unknown model: 'none' is not found (pipeline 'p', node 'a')")
          .message());
  auto versioned = Vector("a", "request/x");
  versioned.version = 9;
  EXPECT_THAT(Fault(Entry({"x"}, {"out=a/y"}, {versioned})), HasSubstr(" - model 'vector', version 9: "));
  EXPECT_EQ(Fault(Entry({"x"}, {"out=a/y"}, {Dl("a", "p", {"IN=request/x"}, {"OUT=y"})})),
            "Pipeline definition contains a cycle - the pipeline contains itself (pipeline 'p', node 'a')");

  auto automatic = AddSame("auto", 1);
  const_cast<ServableInfo&>(automatic->info()).automatic_shape = true;
  auto entry = Entry({"x"}, {"out=a/y"}, {Dl("a", "auto", {"IN=request/x"}, {"OUT=y"})});
  ExpectFault(entry, Fault::kPipelineForbiddenModelDynamicParameter,
              "pipeline 'p', node 'a': model 'auto' (\"allow_auto_shape\": true of the pipeline allows it)");
  entry.allow_auto_shape = true;
  EXPECT_EQ(Fault(entry), "");
  // It follows the node before it, regardless of that node's current shape.
  automatic =
      AddModel("auto", {Spec("IN", DataType::kInt32, {1, 2})}, {Spec("OUT", DataType::kInt32, {1, 2})});
  const_cast<ServableInfo&>(automatic->info()).automatic_shape = true;
  entry.nodes.push_back(Dl("b", "fixed", {"IN=request/x"}, {"OUT=y"}));
  entry.nodes[0] = Dl("a", "auto", {"IN=b/y"}, {"OUT=y"});
  auto p = Make(entry);
  ASSERT_TRUE(p.ok()) << p.status();
  EXPECT_EQ((*p)->info().outputs[0].shape, (Shape{-1, -1}));

  catalog_.Publish(
      std::make_shared<FakeStep>("stream", std::vector{Spec("IN")}, std::vector{Spec("OUT")}, true));
  ExpectFault(Entry({"x"}, {"out=a/y"}, {Dl("a", "stream", {"IN=request/x"}, {"OUT=y"})}),
              Fault::kNotImplemented,
              "pipeline 'p', node 'a': model 'stream' is decoupled, but a pipeline node answers once; use it "
              "in an ensemble");
}

TEST_F(PipelineCheck, OutputsOfDemultiplexers) {
  ExpectFault(Entry({"x"}, {"out=a/y"}, {Cutting(Vector("a", "request/x"), 2)}),
              Fault::kPipelineNotEnoughShapeDimensionsToDemultiply,
              "pipeline 'p', node 'a', output 'OUT': shape (-1) has fewer than 2 dimensions");
  ExpectFault(Entry({"x"}, {"out=a/y"}, {Cutting(Dl("a", "fixed", {"IN=request/x"}, {"OUT=y"}), 3)}),
              Fault::kPipelineDemultiplyCountDoesNotMatch,
              "pipeline 'p', node 'a', output 'OUT': demultiply_count is 3, but the shape is (4,10)");
  EXPECT_EQ(Fault(Entry({"x"}, {"out=a/y"}, {Cutting(Dl("a", "fixed", {"IN=request/x"}, {"OUT=y"}), 4)})),
            "");
  ExpectFault(Entry({"x"}, {"out=a/y"}, {Cutting(Dl("a", "texts", {"IN=request/x"}, {"OUT=y"}), 3)}),
              Fault::kPipelineStringDemultiplicationUnsupported, "pipeline 'p', node 'a', output 'OUT'");
  // An unused output is not split.
  EXPECT_EQ(
      Fault(Entry({"x"}, {"out=b/y"}, {Cutting(Dl("b", "fixed", {"IN=request/x"}, {"OUT=y", "NONE=z"}), 4)})),
      "");
}

TEST_F(PipelineCheck, GatherTargets) {
  ExpectFault(Entry({"x"}, {"out=a/y"}, {Gathering(Vector("a", "request/x"), "none")}),
              Fault::kPipelineGatherFromNotExistingNode,
              "pipeline 'p', node 'a': gathers from 'none'\n" +
                  FaultError(Fault::kPipelineWrongDemultiplexerGatherOrder,
                             "pipeline 'p', node 'a': gathers from 'none' inside no demultiplexer")
                      .message());
  EXPECT_THAT(
      Fault(Entry({"x"}, {"out=b/y"}, {Vector("a", "request/x"), Gathering(Vector("b", "a/y"), "a")})),
      HasSubstr("pipeline 'p', node 'b': gathers from 'a', which has no demultiply_count"));
}

TEST_F(PipelineCheck, Sources) {
  auto fault = [&](const std::string& from) {
    return Entry({"x"}, {"out=b/y"}, {Vector("a", "request/x"), Vector("b", from)});
  };
  auto with_a = [](OvmsPipelineConfig entry) {
    entry.outputs.push_back(Connection("more=a/y"));
    return entry;
  };
  ExpectFault(with_a(fault("none/y")), Fault::kPipelineMissingNode,
              "pipeline 'p', node 'b', input 'IN': takes its data from node 'none'");
  ExpectFault(with_a(fault("response/out")), Fault::kPipelineExitUsedAsDependency,
              "pipeline 'p', node 'b', input 'IN': takes its data from 'response'");
  ExpectFault(with_a(fault("request/none")), Fault::kPipelineMissingDataSource,
              "pipeline 'p', node 'b', input 'IN': takes 'none', which is not among the pipeline's inputs");
  ExpectFault(fault("a/none"), Fault::kPipelineMissingDataSource,
              "pipeline 'p', node 'b', input 'IN': takes 'none', which is not an alias among the outputs of "
              "node 'a'");
  auto entry = fault("a/y");
  entry.nodes[0].outputs = {{"NONE", "y"}};
  ExpectFault(entry, Fault::kPipelineMissingModelOutput,
              "pipeline 'p', node 'b', input 'IN': takes 'y', for which node 'a' names output 'NONE'; it "
              "does not exist");
  // The same holds for outputs of the pipeline.
  ExpectFault(
      Entry({"x"}, {"out=a/none"}, {Vector("a", "request/x")}), Fault::kPipelineMissingDataSource,
      "pipeline 'p', output 'out': takes 'none', which is not an alias among the outputs of node 'a'");
  ExpectFault(Entry({"x"}, {"out=a/y", "out=a/y"}, {Vector("a", "request/x")}),
              Fault::kPipelineInputConnectedTwice, "pipeline 'p', output 'out'");
}

TEST_F(PipelineCheck, InputsOfNodes) {
  ExpectFault(Entry({"x"}, {"out=a/y"}, {Dl("a", "vector", {"IN=request/x", "NONE=request/x"}, {"OUT=y"})}),
              Fault::kPipelineMissingModelInput,
              "pipeline 'p', node 'a', input 'NONE': the input does not exist");
  ExpectFault(Entry({"x"}, {"out=a/y"}, {Dl("a", "vector", {"IN=request/x", "IN=request/x"}, {"OUT=y"})}),
              Fault::kPipelineInputConnectedTwice, "pipeline 'p', node 'a', input 'IN'");
  ExpectFault(Entry({"x"}, {"out=a/y"}, {Dl("a", "sum", {"A=request/x"}, {"OUT=y"})}),
              Fault::kPipelineNotAllInputsConnected, "pipeline 'p', node 'a', input 'B'");
}

TEST_F(PipelineCheck, ShapesAndPrecisions) {
  auto entry =
      Entry({"x"}, {"out=b/y"},
            {Dl("a", "fixed", {"IN=request/x"}, {"OUT=y"}), Dl("b", "fixed", {"IN=a/y"}, {"OUT=y"})});
  ExpectFault(
      entry, Fault::kInvalidShape,
      "pipeline 'p', node 'b', input 'IN': Expected: (1,10); Actual: (4,10) of output 'OUT' of node 'a'");
  // A shard does not fit, but the right number of shards does.
  entry.nodes[0].demultiply_count = 4;
  ExpectFault(
      entry, Fault::kInvalidShape,
      "pipeline 'p', node 'b', input 'IN': Expected: (1,10); Actual: (10) of output 'OUT' of node 'a'");
  AddModel("four", {Spec("IN", DataType::kInt32, {4, 10})}, {Spec("OUT")});
  entry.nodes[1] = Gathering(Dl("b", "four", {"IN=a/y"}, {"OUT=y"}), "a");
  EXPECT_EQ(Fault(entry), "");
  auto ranged = Spec("IN", DataType::kInt32, {-1, 10});
  ranged.ranges = {{1, 3}, {10, 10}};
  AddModel("ranged", {ranged}, {Spec("OUT")});
  entry = Entry({"x"}, {"out=b/y"},
                {Dl("a", "fixed", {"IN=request/x"}, {"OUT=y"}), Dl("b", "ranged", {"IN=a/y"}, {"OUT=y"})});
  ExpectFault(
      entry, Fault::kInvalidShape,
      "pipeline 'p', node 'b', input 'IN': Expected: (1:3,10); Actual: (4,10) of output 'OUT' of node "
      "'a'");

  entry = Entry({"x"}, {"out=b/y"}, {Vector("a", "request/x"), Dl("b", "float", {"IN=a/y"}, {"OUT=y"})});
  ExpectFault(entry, Fault::kInvalidPrecision,
              "pipeline 'p', node 'b', input 'IN': Expected: FP32; Actual: INT32 of output 'OUT' of node 'a' "
              "(\"convert_precision\": true of the pipeline converts it)");
  entry.convert_precision = true;
  EXPECT_EQ(Fault(entry), "");
  entry.nodes[0].model_name = "text";
  ExpectFault(
      entry, Fault::kInvalidPrecision,
      "pipeline 'p', node 'b', input 'IN': Expected: FP32; Actual: BYTES of output 'OUT' of node 'a', "
      "which cannot be converted");
}

TEST_F(PipelineCheck, StringsBetweenModelsOfAConfig) {
  auto entry = Entry({"x"}, {"out=b/y"},
                     {Dl("a", "text", {"IN=request/x"}, {"OUT=y"}), Dl("b", "text", {"IN=a/y"}, {"OUT=y"})});
  EXPECT_EQ(Fault(entry), "");
  auto model = AddSame("text", 1, DataType::kBytes);
  const_cast<ServableInfo&>(model->info()).dialect = Dialect::kOvms;
  ExpectFault(
      entry, Fault::kNotImplemented,
      "pipeline 'p', node 'b', input 'IN': a string tensor between two models, of output 'OUT' of node "
      "'a'; strings can only enter and leave the pipeline");
}

TEST_F(PipelineCheck, Cycles) {
  ExpectFault(Entry({"x"}, {"out=a/y"}, {Vector("a", "a/y")}), Fault::kPipelineCycleFound,
              "pipeline 'p': 'a' -> 'a'");
  auto entry = Entry({"x"}, {"out=d/y"},
                     {Dl("a", "sum", {"A=request/x", "B=c/y"}, {"OUT=y"}), Vector("b", "a/y"),
                      Vector("c", "b/y"), Vector("d", "c/y")});
  ExpectFault(entry, Fault::kPipelineCycleFound, "pipeline 'p': 'a' -> 'b' -> 'c' -> 'a'");
}

TEST_F(PipelineCheck, NodesWithoutUse) {
  ExpectFault(Entry({"x"}, {"out=a/y"}, {Vector("a", "request/x"), Vector("b", "a/y"), Vector("c", "b/y")}),
              Fault::kPipelineUnconnectedNodes,
              "pipeline 'p', node 'b'\n" +
                  FaultError(Fault::kPipelineUnconnectedNodes, "pipeline 'p', node 'c'").message());
}

TEST_F(PipelineCheck, GatherOrder) {
  AddSame("m3", 3);
  auto cut3 = [](const std::string& name, const std::string& from) {
    return Cutting(Dl(name, "m3", {"IN=" + from}, {"OUT=y"}), 2);
  };
  // 'b' is inside 'a' and must be gathered first.
  ExpectFault(
      Entry({"x"}, {"out=g/y"},
            {cut3("a", "request/x"), Cutting(Matrix("b", "a/y"), 2), Gathering(Matrix("g", "b/y"), "a")}),
      Fault::kPipelineWrongDemultiplexerGatherOrder,
      "pipeline 'p', node 'g': gathers from 'a' inside 'a', 'b'");
  EXPECT_EQ(Fault(Entry({"x"}, {"out=g/y"},
                        {cut3("a", "request/x"), Cutting(Matrix("b", "a/y"), 2),
                         Gathering(Matrix("g", "b/y"), "b")})),
            "");
  // It takes both shards and a whole tensor.
  ExpectFault(
      Entry({"x", "m"}, {"out=s/y"},
            {Cutting(Matrix("a", "request/m"), 2), Dl("s", "sum", {"A=a/y", "B=request/x"}, {"OUT=y"})}),
      Fault::kPipelineWrongDemultiplexerGatherOrder,
      "pipeline 'p', node 's': takes 'y' of 'a' from inside 'a' and 'x' of 'request' from inside no "
      "demultiplexer");
  ExpectFault(Entry({"x"}, {"out=a/y", "same=request/x"}, {Cutting(Matrix("a", "request/x"), 2)}),
              Fault::kPipelineWrongDemultiplexerGatherOrder,
              "pipeline 'p', response: takes 'y' of 'a' from inside 'a' and 'x' of 'request' from inside no "
              "demultiplexer");
  // It gathers a demultiplexer that one of its paths did not pass.
  ExpectFault(Entry({"x", "z"}, {"out=g/y", "more=a/y"},
                    {Cutting(Matrix("a", "request/x"), 2), Gathering(Matrix("g", "request/z"), "a")}),
              Fault::kPipelineWrongDemultiplexerGatherOrder,
              "pipeline 'p', node 'g': gathers from 'a' inside no demultiplexer");
}

TEST_F(PipelineCheck, ConsumersOfOneInput) {
  AddModel("two", {Spec("IN", DataType::kInt32, {2})}, {Spec("OUT")});
  AddModel("three", {Spec("IN", DataType::kInt32, {3})}, {Spec("OUT")});
  ExpectFault(
      Entry({"x"}, {"out=a/y", "more=b/y"},
            {Dl("a", "two", {"IN=request/x"}, {"OUT=y"}), Dl("b", "three", {"IN=request/x"}, {"OUT=y"})}),
      Fault::kPipelineAmbiguousInputMetadata,
      "pipeline 'p', input 'x': (2) as node 'a', input 'IN', (3) as node 'b', input 'IN'");
  ExpectFault(Entry({"x"}, {"out=a/y", "more=b/y"},
                    {Vector("a", "request/x"), Dl("b", "float", {"IN=request/x"}, {"OUT=y"})}),
              Fault::kPipelineAmbiguousInputMetadata,
              "pipeline 'p', input 'x': INT32 as node 'a', input 'IN', FP32 as node 'b', input 'IN'");
}

TEST_F(PipelineCheck, MetadataIsWhatFitsAllConsumers) {
  auto ranged = [](int64_t min, int64_t max) {
    auto spec = Spec("IN", DataType::kInt32, {-1, -1});
    spec.ranges = {{min, max}, kAnySize};
    spec.layout = "NC";
    return spec;
  };
  AddModel("a", {ranged(1, 5)}, {Spec("OUT")});
  AddModel("b", {ranged(3, 9)}, {Spec("OUT")});
  auto p =
      Serve(Entry({"x", "free"}, {"out=a/y", "more=b/y", "free=request/free"},
                  {Dl("a", "a", {"IN=request/x"}, {"OUT=y"}), Dl("b", "b", {"IN=request/x"}, {"OUT=y"})}));
  ASSERT_EQ(p->info().inputs.size(), 2u);
  EXPECT_EQ(p->info().inputs[0].shape, (Shape{-1, -1}));
  EXPECT_EQ(p->info().inputs[0].ranges, (Dimensions{{3, 5}, {0, -1}}));
  EXPECT_EQ(p->info().inputs[0].layout, "NC");
  // A tensor that goes straight through has no known type.
  EXPECT_EQ(p->info().inputs[1].type, DataType::kInvalid);
  EXPECT_TRUE(p->info().inputs[1].shape.empty());
  EXPECT_EQ(p->info().outputs[2].type, DataType::kInvalid);
  EXPECT_TRUE(p->info().outputs[2].shape.empty());
}

TEST_F(PipelineCheck, AllFaultsAreToldAtOnce) {
  auto entry =
      Entry({"x"}, {"out=b/none"},
            {Dl("a", "none", {"IN=request/y"}, {"OUT=y"}), Dl("b", "sum", {"A=a/y", "C=zz/y"}, {"OUT=y"})});
  const Status status = Make(entry).status();
  EXPECT_EQ(status.code(), FaultError(Fault::kPipelineMissingModel).code());
  std::vector<std::string> lines;
  std::string rest = status.message();
  while (!rest.empty()) {
    auto [line, after] = SplitAt(rest, '\n');
    lines.push_back(line);
    rest = after;
  }
  ASSERT_EQ(lines.size(), 6u) << status;
  EXPECT_THAT(lines[0], HasSubstr("model 'none'"));
  EXPECT_THAT(lines[1], HasSubstr("takes 'y', which is not among the pipeline's inputs"));
  EXPECT_THAT(lines[2], HasSubstr("takes its data from node 'zz'"));
  EXPECT_THAT(lines[3], HasSubstr("node 'b', input 'C': the input does not exist"));
  EXPECT_THAT(lines[4], HasSubstr("node 'b', input 'B'"));
  EXPECT_THAT(lines[5], HasSubstr("output 'out': takes 'none'"));
  for (const std::string& line : lines) EXPECT_THAT(line, HasSubstr("pipeline 'p', "));
}

}  // namespace
}  // namespace braid
