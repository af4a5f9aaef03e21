// Finding the model in a version's folder, and reading models of all formats that OpenVINO supports.
#include "backends/openvino/model_files.h"

#include <gmock/gmock.h>

#include "backends/openvino/testing/harness.h"
#include "backends/openvino/testing/wire.h"

namespace braid {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using wire::Bytes;
using wire::Entry;
using wire::Number;

// y = x + x, "x" and "y" of [n,3].
constexpr char kOnnx[] =
    "\x08\x08\x12\x00\x3a\x3f\x0a\x0e\x0a\x01\x78\x0a\x01\x78\x12\x01\x79\x22\x03\x41\x64\x64\x12\x01\x67\x5a"
    "\x14"
    "\x0a\x01\x78\x12\x0f\x0a\x0d\x08\x01\x12\x09\x0a\x03\x12\x01\x6e\x0a\x02\x08\x03\x62\x14\x0a\x01\x79\x12"
    "\x0f"
    "\x0a\x0d\x08\x01\x12\x09\x0a\x03\x12\x01\x6e\x0a\x02\x08\x03\x42\x04\x0a\x00\x10\x0d";

// The same model over [2,3].
constexpr char kTflite[] =
    "\x18\x00\x00\x00\x54\x46\x4c\x33\x0e\x00\x14\x00\x04\x00\x08\x00\x0c\x00\x00\x00\x10\x00\x00\x00\x10\x00"
    "\x00\x00\x03\x00\x00\x00\x0c\x00\x00\x00\x2c\x00\x00\x00\x28\x01\x00\x00\x01\x00\x00\x00\x10\x00\x00\x00"
    "\x0c\x00\x10\x00\x04\x00\x00\x00\x08\x00\x0c\x00\x0c\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00"
    "\x00\x00\x01\x00\x00\x00\x10\x00\x00\x00\x0c\x00\x14\x00\x04\x00\x08\x00\x0c\x00\x10\x00\x0c\x00\x00\x00"
    "\x10\x00\x00\x00\x80\x00\x00\x00\x84\x00\x00\x00\x88\x00\x00\x00\x02\x00\x00\x00\x14\x00\x00\x00\x44\x00"
    "\x00\x00\x0c\x00\x14\x00\x04\x00\x08\x00\x0c\x00\x10\x00\x0c\x00\x00\x00\x10\x00\x00\x00\x00\x00\x00\x00"
    "\x00\x00\x00\x00\x10\x00\x00\x00\x02\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00\x01\x00\x00\x00\x78\x00"
    "\x00\x00\x0c\x00\x14\x00\x04\x00\x08\x00\x0c\x00\x10\x00\x0c\x00\x00\x00\x10\x00\x00\x00\x00\x00\x00\x00"
    "\x00\x00\x00\x00\x10\x00\x00\x00\x02\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00\x01\x00\x00\x00\x79\x00"
    "\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x14\x00\x00\x00"
    "\x0e\x00\x18\x00\x04\x00\x08\x00\x0c\x00\x10\x00\x14\x00\x00\x00\x10\x00\x00\x00\x00\x00\x00\x00\x10\x00"
    "\x00\x00\x18\x00\x00\x00\x0b\x00\x00\x00\x20\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    "\x01\x00\x00\x00\x01\x00\x00\x00\x06\x00\x05\x00\x04\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x01\x00"
    "\x00\x00\x0c\x00\x00\x00\x06\x00\x08\x00\x04\x00\x00\x00\x08\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00"
    "\x00";

std::string OnnxModel() { return {kOnnx, sizeof(kOnnx) - 1}; }

constexpr uint64_t kAny = ~uint64_t{0};  // a dimension of -1

// The same model as a TensorFlow graph.
std::string TensorFlowGraph() {
  const std::string float_type = Number(6, 1);
  const std::string shape = Bytes(7, Bytes(2, Number(1, kAny)) + Bytes(2, Number(1, 3)));
  const std::string x =
      Bytes(1, "x") + Bytes(2, "Placeholder") + Entry(5, "dtype", float_type) + Entry(5, "shape", shape);
  const std::string y =
      Bytes(1, "y") + Bytes(2, "AddV2") + Bytes(3, "x") + Bytes(3, "x") + Entry(5, "T", float_type);
  return Bytes(1, x) + Bytes(1, y) + Bytes(4, Number(1, 1000));
}

std::string SavedModel() {
  const auto tensor = [](const std::string& name) {
    return Bytes(1, name + ":0") + Number(2, 1) +
           Bytes(3, Bytes(2, Number(1, kAny)) + Bytes(2, Number(1, 3)));
  };
  const std::string signature =
      Entry(1, "x", tensor("x")) + Entry(2, "y", tensor("y")) + Bytes(3, "tensorflow/serving/predict");
  const std::string graph =
      Bytes(1, Bytes(4, "serve")) + Bytes(2, TensorFlowGraph()) + Entry(5, "serving_default", signature);
  return Number(1, 1) + Bytes(2, graph);
}

// y = relu(x) as a PaddlePaddle program.
std::string PaddleProgram() {
  const auto variable = [](const std::string& name) {
    const std::string tensor = Number(1, 5) + Number(2, kAny) + Number(2, 3);
    return Bytes(3, Bytes(1, name) + Bytes(2, Number(1, 7) + Bytes(3, Bytes(1, tensor))));
  };
  const auto special = [](const std::string& name, uint64_t type) {
    return Bytes(3, Bytes(1, name) + Bytes(2, Number(1, type)) + Number(3, 1));
  };
  const auto operation = [](const std::string& type, const std::string& in, const std::string& out,
                            bool column) {
    std::string text =
        Bytes(1, Bytes(1, "X") + Bytes(2, in)) + Bytes(2, Bytes(1, "Out") + Bytes(2, out)) + Bytes(3, type);
    if (column) text += Bytes(4, Bytes(1, "col") + Number(2, 0) + Number(3, 0));
    return Bytes(4, text);
  };
  const std::string block = Number(1, 0) + Number(2, kAny) + special("feed", 9) + special("fetch", 10) +
                            variable("x") + variable("y") + operation("feed", "feed", "x", true) +
                            operation("relu", "x", "y", false) + operation("fetch", "y", "fetch", true);
  return Bytes(1, block) + Bytes(4, Number(1, 2004000));
}

class ModelFiles : public OpenVinoHarness {
 protected:
  void ExpectDoubled(const OvmsModelConfig& config) {
    auto model = Start(config);
    ASSERT_NE(model, nullptr);
    ASSERT_EQ(model->info().inputs.size(), 1u);
    const std::string input = model->info().inputs[0].name;
    EXPECT_THAT(Dims(model->info().inputs[0].shape), ElementsAre(-1, 3));
    const auto response = Infer(model, {Floats(input, {2, 3}, {1, 2, 3, 4, 5, 6})});
    ASSERT_TRUE(response.status.ok()) << response.status;
    EXPECT_THAT(ValuesOf<float>(response.outputs.at(0)), ElementsAre(2, 4, 6, 8, 10, 12));
    Stop(model);
  }
};

TEST_F(ModelFiles, Onnx) {
  Write(VersionPath() + "/model.onnx", OnnxModel());
  ExpectDoubled(Config());
}

TEST_F(ModelFiles, TensorFlowFrozenGraph) {
  Write(VersionPath() + "/frozen.pb", TensorFlowGraph());
  ExpectDoubled(Config());
  Write(VersionPath("other") + "/model.graphdef", TensorFlowGraph());
  ExpectDoubled(Config("other"));
}

TEST_F(ModelFiles, TensorFlowSavedModel) {
  Write(VersionPath() + "/saved_model.pb", SavedModel());
  std::filesystem::create_directories(VersionPath() + "/variables");
  ExpectDoubled(Config());
  Write(VersionPath("other") + "/model.savedmodel/saved_model.pb", SavedModel());
  ExpectDoubled(Config("other"));
}

TEST_F(ModelFiles, TensorFlowLite) {
  Write(VersionPath() + "/model.tflite", {kTflite, sizeof(kTflite) - 1});
  auto model = Start(Config());
  ASSERT_NE(model, nullptr);
  const auto response = Infer(model, {Floats("x", {2, 3}, {1, 2, 3, 4, 5, 6})});
  ASSERT_TRUE(response.status.ok()) << response.status;
  EXPECT_EQ(response.outputs.at(0).name, "y");
  EXPECT_THAT(ValuesOf<float>(response.outputs[0]), ElementsAre(2, 4, 6, 8, 10, 12));
  Stop(model);
}

TEST_F(ModelFiles, Paddle) {
  Write(VersionPath() + "/inference.pdmodel", PaddleProgram());
  Write(VersionPath() + "/inference.pdiparams", "");
  auto model = Start(Config());
  ASSERT_NE(model, nullptr);
  const std::string input = model->info().inputs.at(0).name;
  const auto response = Infer(model, {Floats(input, {1, 3}, {-1, 2, -3})});
  ASSERT_TRUE(response.status.ok()) << response.status;
  EXPECT_THAT(ValuesOf<float>(response.outputs.at(0)), ElementsAre(0, 2, 0));
  Stop(model);
}

TEST_F(ModelFiles, WhatIsNoOneModelIsRefused) {
  EXPECT_THAT(LoadError(Config("missing")), HasSubstr("File not found or cannot open - "));
  VersionPath();
  EXPECT_THAT(LoadError(Config()), HasSubstr("/m/1' has no model"));
  Save(models::Affine({1, 2}));
  Write(VersionPath() + "/labels.txt", "x");
  Write(VersionPath() + "/notes.json", "{}");
  EXPECT_TRUE(Load(Config()).ok());
  Write(VersionPath() + "/model.onnx", OnnxModel());
  EXPECT_THAT(LoadError(Config()), HasSubstr("has several models: model.onnx, model.xml"));
  std::filesystem::remove(VersionPath() + "/model.onnx");
  std::filesystem::remove(VersionPath() + "/model.bin");
  EXPECT_THAT(LoadError(Config()), HasSubstr("model.bin' are missing"));

  Write(VersionPath("torch") + "/model.pt", "x");
  EXPECT_EQ(Load(Config("torch")).status().code(), StatusCode::kUnsupported);
  EXPECT_THAT(LoadError(Config("torch")), HasSubstr("export it to ONNX"));
  Write(VersionPath("broken") + "/model.onnx", "this is no model");
  EXPECT_THAT(LoadError(Config("broken")), HasSubstr("File not found or cannot open - ONNX '"));
  // An existing, readable file is not called missing when it uses an unknown operation.
  std::string unknown = OnnxModel();
  unknown.replace(unknown.find("Add"), 3, "Zap");
  Write(VersionPath("unknown") + "/model.onnx", unknown);
  EXPECT_EQ(Load(Config("unknown")).status().code(), StatusCode::kUnsupported);
  EXPECT_THAT(LoadError(Config("unknown")),
              AllOf(StartsWith("ONNX '"), HasSubstr("uses operations that OpenVINO does not support: "),
                    HasSubstr("Zap"), Not(HasSubstr(".cpp")), Not(HasSubstr("File not found"))));
  Write(VersionPath("broken_ir") + "/model.xml", "<net");
  Write(VersionPath("broken_ir") + "/model.bin", "");
  EXPECT_THAT(LoadError(Config("broken_ir")), HasSubstr("cannot be read: "));
}

}  // namespace
}  // namespace braid
