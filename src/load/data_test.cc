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
  EXPECT_EQ(text("{}"), "f: a data file is an object with the list \"data\"");
  EXPECT_EQ(text(R"({"data": [{"Z": 1}]})"), "f: data[0]: model m has no input Z; it has X, TEXT");
  EXPECT_EQ(text(R"({"data": [{}]})"), "f: data[0]: input X is missing");
  EXPECT_EQ(text(R"({"data": [[{"X": [1, 2]}], [{"X": [1]}]]})"),
            "f: data[1][0]: X of shape [2] has 2 elements, and not 1");
  EXPECT_EQ(text(R"({"data": [{"X": {"b64": "!"}}]})"), "f: data[0]: X: the text is no base64");
  EXPECT_EQ(text(R"({"data": [{"X": [1, 2]}], "validation_data": [{}, {}]})"),
            "f: \"validation_data\" has not the steps that \"data\" has");
}

TEST(MakeStep, SaysWhichShapeIsNotKnown) {
  ModelInfo model = Model();
  model.inputs[1].optional = false;
  std::mt19937_64 random(1);
  EXPECT_EQ(MakeStep(model, {}, random).status().message(),
            "input TEXT has the shape [1,-1]: say which by --shape TEXT:...");
  DataOptions options;
  options.shapes["TEXT"] = {4};
  options.batch = 2;
  const auto step = MakeStep(model, options, random);
  ASSERT_TRUE(step.ok());
  EXPECT_THAT(step->inputs[1].shape, ElementsAre(2, 4));
  options.batch = 9;
  EXPECT_THAT(MakeStep(model, options, random).status().message(), HasSubstr("at most 8, not 9"));
  model.max_batch_size = 0;
  EXPECT_EQ(MakeStep(model, options, random).status().message(), "model m has no batches: -b must be 1");
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
