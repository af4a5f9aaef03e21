// HTTP requests to servables of Dialect::kOvms: their inputs, and the texts of their errors.
#include <gtest/gtest.h>

#include <cstring>

#include "protocols/kserve/http/infer_request.h"
#include "protocols/kserve/testing/read_infer_request.h"
#include "serving/request_check.h"

namespace braid {
namespace {

class OvmsReading : public testing::Test {
 protected:
  OvmsReading() {
    info_.name = "dummy";
    info_.dialect = Dialect::kOvms;
    info_.inputs.push_back(Spec("b", DataType::kFp32, {1, 10}));
    info_.outputs.push_back(Spec("a", DataType::kFp32, {1, 10}));
  }
  static TensorSpec Spec(std::string name, DataType type, const Shape& shape) {
    TensorSpec spec;
    spec.name = std::move(name);
    spec.type = type;
    spec.shape = shape;
    return spec;
  }
  Result<OwnInferRequest> Read(const std::string& json, size_t binary_bytes = 0) {
    padded_ = json + std::string(simdjson::SIMDJSON_PADDING, ' ');
    return ReadOwn([&](HttpInferRequest& out) {
      return ReadInferRequest(std::string_view(padded_).substr(0, json.size()), binary_bytes,
                              binary_bytes > 0, {info_, heap_, 1 << 20}, parser_, out);
    });
  }
  // Returns the error of reading or of the checks after it; "" for a good request.
  std::string Fault(const std::string& json, size_t binary_bytes = 0) {
    auto read = Read(json, binary_bytes);
    const Status status = read.ok() ? CheckRequest(info_, *read->request) : read.status();
    http_status_ = HttpStatusOf(status);
    return status.message();
  }
  // One input with these members.
  static std::string Input(const std::string& members) { return R"({"inputs":[{)" + members + "}]}"; }
  static std::string Json(const std::string& data, const std::string& shape = "[1,10]",
                          const std::string& datatype = "FP32") {
    return Input(R"("name":"b","datatype":")" + datatype + R"(","shape":)" + shape + R"(,"data":)" + data);
  }
  static std::string Binary(const std::string& more = "", const std::string& shape = "[1,10]",
                            const std::string& datatype = "FP32") {
    return Input(R"("name":"b","datatype":")" + datatype + R"(","shape":)" + shape + more);
  }

  ServableInfo info_;
  HeapAllocator heap_;
  simdjson::dom::parser parser_;
  std::string padded_;
  int http_status_ = 0;
};

TEST_F(OvmsReading, TakesDataOfAnyNesting) {
  EXPECT_EQ(Fault(Json("[1,2,3,4,5,6,7,8,9,10]")), "");
  EXPECT_EQ(Fault(Json("[[1,2,3,4,5,6,7,8,9,10]]")), "");
}

TEST_F(OvmsReading, SaysWhatIsWrongWithTheDocument) {
  EXPECT_TRUE(
      Fault("{").starts_with("The file is not valid json - failed to parse the request JSON buffer: "));
  EXPECT_EQ(http_status_, 412);
  EXPECT_EQ(
      Fault("[]"),
      "Request body should be JSON object - Unable to parse 'request': attempt to access JSON non-object as "
      "object");
  EXPECT_EQ(http_status_, 400);
  EXPECT_EQ(Fault("{}"), "Invalid JSON structure, missing inputs");
  EXPECT_EQ(
      Fault(R"({"inputs":[3]})"),
      "Invalid JSON structure. One of inputs is not a JSON object. - Unable to parse 'inputs': attempt to "
      "access JSON non-object as object");
  EXPECT_EQ(Fault(R"({"inputs":[{"shape":[1],"datatype":"FP32","data":[1]}]})"),
            "Could not parse input content. Not valid ndarray detected - Unable to parse 'name': attempt to "
            "access non-existing object member 'name'");
  EXPECT_EQ(
      Fault(R"({"inputs":[],"parameters":3})"),
      "Could not parse request parameters - Unable to parse 'parameters': attempt to access JSON non-object "
      "as object");
  EXPECT_EQ(
      Fault(R"({"inputs":[],"outputs":3})"),
      "Could not parse output content. - Unable to parse 'outputs': attempt to access JSON non-array as "
      "array");
  EXPECT_EQ(Fault(R"({"inputs":[]})"), "Invalid number of inputs - Expected: 1; Actual: 0");
}

TEST_F(OvmsReading, SaysWhatIsWrongWithValues) {
  EXPECT_EQ(
      Fault(Json("[1,2,3,4,5,6,7,8,9,true]")),
      "Could not parse input content. Not valid ndarray detected - Unable to parse 'data': attempt to access "
      "JSON non-number as double");
  EXPECT_EQ(http_status_, 400);
  EXPECT_EQ(
      Fault(Json("[1]", "[1,10]", "FP16")),
      "Could not parse input content. Unsupported data precision detected - receiving FP16 data via JSON is "
      "not supported. Please use the binary data format for input b");
  EXPECT_EQ(
      Fault(Json("[1]", "[1,10]", "STRANGE")),
      "Could not parse input content. Unsupported data precision detected - invalid datatype for input b");
  EXPECT_EQ(Fault(Json("[1]", "[-1,10]")),
            "Could not parse input content. Not valid ndarray detected - Unable to parse 'shape': attempt to "
            "access JSON non-unsigned-integer as unsigned-integer");
}

TEST_F(OvmsReading, CountsValues) {
  const std::string text =
      "Invalid number of values in tensor proto container - Expected: 10 values; Actual: ";
  EXPECT_EQ(Fault(Json("[1,2,3,4,5,6,7,8,9]")), text + "9 values; input name: b");
  EXPECT_EQ(Fault(Json("[[1,2,3,4,5,6],[7,8,9,10,11]]")), text + "11 values; input name: b");
  EXPECT_EQ(Fault(Binary()), text + "0 values; input name: b");
  EXPECT_EQ(http_status_, 400);
  info_.inputs[0].type = DataType::kBytes;
  EXPECT_EQ(Fault(Json(R"(["a","b"])", "[1,10]", "BYTES")), text + "2 values; input name: b");
  EXPECT_EQ(Fault(Json(R"(["a"])", "[1,1000000000000]", "BYTES")),
            "Invalid input shape - Expected: (1,10); Actual: (1,1000000000000); input name: b");
}

TEST_F(OvmsReading, LooksAtShapesBeforeValues) {
  EXPECT_EQ(Fault(Json("[1,2,3]", "[1,9]")),
            "Invalid input shape - Expected: (1,10); Actual: (1,9); input name: b");
  EXPECT_EQ(Fault(Json("[1,2,3]", "[1,10]", "INT32")),
            "Invalid input precision - Expected: FP32; Actual: INT32; input name: b");
  EXPECT_EQ(Fault(Binary("", "[1,9]"), 40),
            "Invalid input shape - Expected: (1,10); Actual: (1,9); input name: b");
}

TEST_F(OvmsReading, TakesTheSizeOfBinaryDataFromTheShape) {
  EXPECT_EQ(Fault(Binary(), 40), "");
  EXPECT_EQ(Fault(Binary(R"(,"parameters":{"binary_data_size":40})"), 40), "");
  EXPECT_EQ(Fault(Binary(R"(,"parameters":{"binary_data_size":36})"), 36),
            "Invalid content size of tensor proto - Expected: 40 bytes; Actual: 36 bytes; input name: b");
}

TEST_F(OvmsReading, SaysWhatIsWrongWithBinaryData) {
  EXPECT_EQ(
      Fault(Binary(R"(,"parameters":{"binary_data_size":"40"})"), 40),
      "binary_data_size parameter is invalid and cannot be parsed - Unable to parse 'binary_data_size': "
      "attempt to access JSON non-unsigned-integer as unsigned-integer");
  EXPECT_EQ(
      Fault(Binary(R"(,"parameters":{"binary_data_size":-40})"), 40),
      "binary_data_size parameter is invalid and cannot be parsed - Unable to parse 'binary_data_size': "
      "attempt to access JSON non-unsigned-integer as unsigned-integer");
  EXPECT_EQ(Fault(Binary(R"(,"parameters":{"binary_data_size":40})"), 30),
            "Received buffer size is smaller than binary_data_size parameter indicates - Expected: 40 bytes; "
            "Actual: 30 bytes; input name: b");
  EXPECT_EQ(Fault(Binary(), 30),
            "Received buffer size is smaller than binary_data_size parameter indicates - Expected: 40 bytes; "
            "Actual: 30 bytes; input name: b");
  EXPECT_EQ(Fault(Binary(R"(,"parameters":{"binary_data_size":40})")),
            "Received buffer size is smaller than binary_data_size parameter indicates - Expected: 40 bytes; "
            "Actual: 0 bytes; input name: b");
  EXPECT_EQ(
      Fault(Binary(R"(,"data":[1],"parameters":{"binary_data_size":40})"), 40),
      "Request contains values both in binary data and in content value - Input must set only one of the "
      "following fields: 'data', 'binary_data_size' in 'parameters', 'shared_memory_region' in "
      "'parameters'. But both 'data' and 'binary_data_size' are set");
  EXPECT_EQ(Fault(Binary(), 44),
            "Invalid content size of tensor proto - unexpected additional input data for model 'dummy'");
}

TEST_F(OvmsReading, OneStringTakesAllBinaryData) {
  info_.inputs[0] = Spec("b", DataType::kBytes, {-1});
  auto read = Read(Binary("", "[1]", "BYTES"), 9);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->destinations.size(), 1u);
  EXPECT_EQ(read->destinations[0].size(), 9u);
  EXPECT_EQ(read->request->inputs[0].data.size(), 9u);
  EXPECT_EQ(Fault(Binary("", "[2]", "BYTES"), 9),
            "binary_data_size parameter is invalid and cannot be parsed - BYTES of this shape requires it; "
            "input name: b");
}

TEST_F(OvmsReading, EncodedImagesAreTakenAsTheyAre) {
  info_.inputs[0] = Spec("b", DataType::kUint8, {1, 4, 4, 3});
  auto read = Read(Binary("", "[1]", "BYTES"), 100);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->request->inputs[0].type, DataType::kBytes);
  EXPECT_EQ(read->request->inputs[0].shape, (Shape{1}));
  EXPECT_EQ(read->request->inputs[0].data.size(), 100u);
}

TEST_F(OvmsReading, AnEmptyTensorNeedsNoData) {
  info_.inputs[0].shape = {-1, 10};
  EXPECT_EQ(Fault(Binary("", "[0,10]")), "");
  EXPECT_EQ(Fault(Json("[]", "[0,10]")), "");
}

TEST_F(OvmsReading, TakesTritonsParameters) {
  auto read =
      Read(R"({"inputs":[],"parameters":{"sequence_id":7,"sequence_start":true,"priority":2,"own":"x"}})");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(std::get<uint64_t>(read->request->correlation_id), 7u);
  EXPECT_TRUE(read->request->sequence_start);
  EXPECT_EQ(read->request->parameters.size(), 1u);
}

TEST(OvmsWriting, HalfFloatsTravelInBinaryForm) {
  HttpOutputFormat format;
  format.rules = &RulesOf(Dialect::kOvms);
  InferenceResponse response;
  response.outputs.push_back({"a", DataType::kFp16, {1}, HeapAllocator().Allocate(2).value()});
  const auto written = WriteInferResponse("", response, format);
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(HttpStatusOf(written.status()), 400);
  EXPECT_EQ(written.status().message(),
            "Could not parse input content. Unsupported data precision detected - sending FP16 data via JSON "
            "is not "
            "supported. Please use the binary data format for output a");
  format.binary_default = true;
  EXPECT_TRUE(WriteInferResponse("", response, format).ok());
}

}  // namespace
}  // namespace braid
