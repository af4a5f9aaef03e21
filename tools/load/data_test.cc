#include "load/data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "load/npy.h"

namespace braid::load {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelInfo Model() {
  ModelInfo model;
  model.name = "m";
  model.inputs = {{"X", "INT32", {-1, 2}}, {"TEXT", "BYTES", {-1, -1}, true}};
  model.outputs = {{"Y", "INT32", {-1, 2}}};
  model.has_config = true;
  model.max_batch_size = 8;
  return model;
}

std::string Numbers(const Tensor& tensor) { return JsonElements(tensor.datatype, tensor.data); }

TEST(DataFile, HasStreamsOfStepsWithWhatIsToBeAnswered) {
  const auto set =
      ReadDataFile(Model(), {}, R"({"data": [[{"X": [1, 2]}, {"X": {"content": [[3, 4]], "shape": [2]}}],
                                                      [{"X": {"b64": "BQAAAAYAAAA="}, "TEXT": ["a", "b"]}]],
                                             "validation_data": [[{"Y": [1, 2]}, {}], [{"Y": [5, 6]}]]})",
                   "f");
  ASSERT_TRUE(set.ok()) << set.status().message();
  ASSERT_EQ(set->streams.size(), 2U);
  ASSERT_EQ(set->streams[0].size(), 2U);
  EXPECT_THAT(set->streams[0][0].inputs[0].shape, ElementsAre(1, 2));
  EXPECT_EQ(Numbers(set->streams[0][1].inputs[0]), "[3,4]");
  EXPECT_TRUE(set->streams[0][1].expected.empty());
  const std::vector<Tensor>& inputs = set->streams[1][0].inputs;
  EXPECT_THAT(inputs[0].shape, ElementsAre(1, 2));
  EXPECT_EQ(Numbers(inputs[0]) + Numbers(inputs[1]), R"(["a","b"][5,6])");
  EXPECT_EQ(Numbers(set->streams[1][0].expected[0]), "[5,6]");
}

TEST(DataFile, PutsStepsTogetherToBatches) {
  DataOptions options;
  options.batch = 3;
  const auto set = ReadDataFile(Model(), options, R"({"data": [{"X": [1, 2]}, {"X": [3, 4]}]})", "f");
  ASSERT_TRUE(set.ok());
  ASSERT_EQ(set->streams[0].size(), 2U);
  EXPECT_THAT(set->streams[0][1].inputs[0].shape, ElementsAre(3, 2));
  EXPECT_EQ(Numbers(set->streams[0][1].inputs[0]), "[3,4,1,2,3,4]");
}

TEST(DataFile, NamesWhatIsWrong) {
  const auto text = [](const char* file) { return ReadDataFile(Model(), {}, file, "f").status().message(); };
  EXPECT_THAT(text("{"), HasSubstr("f: "));
  EXPECT_EQ(text("{}"), "f: a data file must be an object with the list \"data\"");
  EXPECT_EQ(text(R"({"data": [{"Z": 1}]})"), "f: data[0]: model m has no input Z; it has X, TEXT");
  EXPECT_EQ(text(R"({"data": [{}]})"), "f: data[0]: input X is missing");
  EXPECT_EQ(text(R"({"data": [[{"X": [1, 2]}], [{"X": [1]}]]})"),
            "f: data[1][0]: X of shape [2] needs 2 elements, got 1");
  EXPECT_EQ(text(R"({"data": [{"X": {"b64": "!"}}]})"), "f: data[0]: X: the text is not base64");
  EXPECT_EQ(text(R"({"data": [{"X": [1, 2]}], "validation_data": [{}, {}]})"),
            "f: \"validation_data\" must have the same steps as \"data\"");
}

TEST(MakeStep, TakesOneForAnOpenDimensionAndSaysSo) {
  ModelInfo model = Model();
  model.inputs[1].optional = false;
  std::mt19937_64 random(1);
  std::vector<std::string> notes;
  DataOptions options;
  options.note = [&](const std::string& note) { notes.push_back(note); };
  const auto assumed = MakeStep(model, options, random);
  ASSERT_TRUE(assumed.ok());
  EXPECT_THAT(assumed->inputs[1].shape, ElementsAre(1, 1));
  EXPECT_THAT(notes, ElementsAre("TEXT has the shape [-1]: using [1]; change it with --shape TEXT:..."));
  options.shapes["TEXT"] = {4};
  options.batch = 2;
  const auto step = MakeStep(model, options, random);
  ASSERT_TRUE(step.ok());
  EXPECT_THAT(step->inputs[1].shape, ElementsAre(2, 4));
  options.batch = 9;
  EXPECT_THAT(MakeStep(model, options, random).status().message(), HasSubstr("at most 8, got 9"));
  model.max_batch_size = 0;
  EXPECT_EQ(MakeStep(model, options, random).status().message(),
            "model m does not support batches: -b must be 1");
}

// Like the metadata of a graph.
ModelInfo Graph() {
  ModelInfo model;
  model.name = "g";
  model.inputs = {{"x", "", {}, false, true}};
  model.outputs = {{"y", "", {}, false, true}};
  return model;
}

TEST(Datatype, IsThatOfTheValuesWhereTheMetadataHasNone) {
  const auto sent = [](const char* values) {
    const auto tensor = TensorFromJson(Graph(), Graph().inputs[0], {}, ParseJson(values));
    return tensor.ok() ? tensor->datatype + ShapeText(tensor->shape) + Numbers(*tensor)
                       : tensor.status().message();
  };
  EXPECT_EQ(sent("[[1, 2], [3, 4], [5, 6]]"), "INT64[3,2][1,2,3,4,5,6]");
  EXPECT_EQ(sent("[1, 2.5]"), "FP32[2][1,2.5]");
  EXPECT_EQ(sent("[true, false]"), "BOOL[2][true,false]");
  EXPECT_EQ(sent("[true, 2]"), "INT64[2][1,2]");
  EXPECT_EQ(sent(R"("text")"), R"(BYTES[1]["text"])");
  EXPECT_EQ(sent(R"({"b64": "AAAA"})"),
            "the metadata has no datatype for x: use JSON values, or set --datatype x:FP32");
}

TEST(Datatype, CanBeSaidWhereTheMetadataHasNone) {
  ModelInfo model = Graph();
  std::mt19937_64 random(1);
  EXPECT_THAT(MakeStep(model, {}, random).status().message(), HasSubstr("--datatype x:FP32"));
  ASSERT_TRUE(SetDatatype("x:FP16", model).ok());
  const auto step = MakeStep(model, {}, random);
  ASSERT_TRUE(step.ok());
  EXPECT_EQ(step->inputs[0].datatype, "FP16");
  EXPECT_THAT(step->inputs[0].shape, ElementsAre(1));
  EXPECT_EQ(SetDatatype("x:INT8", model).message(), "x has datatype FP16 in the metadata, not INT8");
  EXPECT_EQ(SetDatatype("z:INT8", model).message(), "model g has no input or output z; it has x, y");
  EXPECT_EQ(SetDatatype("x:FLOAT", model).message(), "'FLOAT' is not a datatype of KServe v2");
  EXPECT_FALSE(SetDatatype("FP32", model).ok());
}

TEST(TensorFromBytes, HasTheShapeThatItsBytesSay) {
  const ModelInfo model;
  const auto tensor = TensorFromBytes(model, {"Z", "INT16", {-1, 2}}, {}, std::string("\1\0\2\0\3\0\4\0", 8));
  ASSERT_TRUE(tensor.ok());
  EXPECT_EQ(Numbers(*tensor), "[1,2,3,4]");
  EXPECT_THAT(tensor->shape, ElementsAre(2, 2));
  EXPECT_EQ(TensorFromBytes(model, {"Z", "INT16", {4}}, {}, "abc").status().message(),
            "3 bytes are not a whole number of INT16");
  EXPECT_EQ(TensorFromBytes(model, {"Z", "INT16", {4}}, {}, "abcd").status().message(),
            "Z of shape [4] needs 4 elements, got 2");
}

TEST(ParseShape, ReadsNameAndDimensions) {
  const auto shape = ParseShape("A:B:1,20");
  ASSERT_TRUE(shape.ok());
  EXPECT_EQ(shape->first, "A:B");
  EXPECT_THAT(shape->second, ElementsAre(1, 20));
  for (const char* bad : {"", "A", "A:", ":1", "A:1,", "A:-1", "A:1x2"})
    EXPECT_FALSE(ParseShape(bad).ok()) << bad;
}

TEST(Npy, HasTypeShapeAndBytes) {
  std::string file("\x93NUMPY\x01\x00", 8);
  const std::string head = "{'descr': '<i2', 'fortran_order': False, 'shape': (1, 2), }\n";
  file += std::string{static_cast<char>(head.size()), '\0'} + head + std::string("\1\0\2\0", 4);
  const auto tensor = ReadNpy(file);
  ASSERT_TRUE(tensor.ok()) << tensor.status().message();
  EXPECT_EQ(tensor->datatype, "INT16");
  EXPECT_THAT(tensor->shape, ElementsAre(1, 2));
  EXPECT_EQ(Numbers(*tensor), "[1,2]");
  EXPECT_FALSE(ReadNpy(file.substr(0, file.size() - 1)).ok());
  EXPECT_FALSE(ReadNpy("text").ok());
}

TEST(Npy, DimensionsThatNoNumberHoldsAreRefused) {
  std::string file("\x93NUMPY\x01\x00", 8);
  const std::string head = "{'descr': '<i2', 'fortran_order': False, 'shape': (99999999999999999999,), }\n";
  file += std::string{static_cast<char>(head.size()), '\0'} + head;
  EXPECT_EQ(ReadNpy(file).status().message(),
            "the .npy file has a dimension of 99999999999999999999, which is too large");
}

}  // namespace
}  // namespace braid::load
