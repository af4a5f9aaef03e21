#include "protocols/kserve/http/infer_request.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "protocols/kserve/testing/read_infer_request.h"
#include "serving/request_check.h"
#include "tensor/bytes_elements.h"

namespace braid {
namespace {

using std::string_literals::operator""s;

ServableInfo Model() {
  ServableInfo info;
  info.name = "m";
  info.inputs.push_back(TensorSpec{.name = "IN", .type = DataType::kFp32, .shape = {-1}, .labels = {}});
  info.outputs.push_back(
      TensorSpec{.name = "OUT", .type = DataType::kFp32, .shape = {-1}, .labels = {"cat", "dog"}});
  return info;
}

class Reading : public testing::Test {
 protected:
  Result<OwnInferRequest> Read(const std::string& json, size_t binary_bytes = 0, bool has_header = false) {
    padded_ = json + std::string(simdjson::SIMDJSON_PADDING, ' ');
    return ReadOwn([&](HttpInferRequest& out) {
      return ReadInferRequest(std::string_view(padded_).substr(0, json.size()), binary_bytes, has_header,
                              {info_, heap_, max_input_bytes_}, parser_, out);
    });
  }
  Result<OwnInferRequest> Input(const std::string& datatype, const std::string& shape,
                                const std::string& data) {
    return Read(R"({"inputs":[{"name":"IN","datatype":")" + datatype + R"(","shape":)" + shape +
                R"(,"data":)" + data + "}]}");
  }
  template <class T>
  std::vector<T> Values(const Result<OwnInferRequest>& read) {
    EXPECT_TRUE(read.ok()) << read.status();
    if (!read.ok()) return {};
    const Buffer& data = (*read).request->inputs.at(0).data;
    std::vector<T> values(data.size() / sizeof(T));
    if (!data.empty()) std::memcpy(values.data(), data.data(), data.size());
    return values;
  }

  ServableInfo info_ = Model();
  HeapAllocator heap_;
  size_t max_input_bytes_ = 1 << 20;
  simdjson::dom::parser parser_;
  std::string padded_;
};

TEST_F(Reading, TakesNumbersOfEveryKind) {
  EXPECT_EQ(Values<float>(Input("FP32", "[2,2]", "[[1,2.5],[-3,1e2]]")),
            (std::vector<float>{1, 2.5, -3, 100}));
  EXPECT_EQ(Values<float>(Input("FP32", "[2,2]", "[1,2.5,-3,1e2]")), (std::vector<float>{1, 2.5, -3, 100}));
  EXPECT_EQ(Values<double>(Input("FP64", "[1]", "[18446744073709551615]")),
            (std::vector<double>{18446744073709551615.0}));
  EXPECT_EQ(Values<int8_t>(Input("INT8", "[2]", "[-128,127]")), (std::vector<int8_t>{-128, 127}));
  EXPECT_EQ(Values<int64_t>(Input("INT64", "[1]", "[-9223372036854775808]")),
            (std::vector<int64_t>{INT64_MIN}));
  EXPECT_EQ(Values<uint64_t>(Input("UINT64", "[1]", "[18446744073709551615]")),
            (std::vector<uint64_t>{UINT64_MAX}));
  EXPECT_EQ(Values<uint8_t>(Input("BOOL", "[3]", "[true,[false],true]")), (std::vector<uint8_t>{1, 0, 1}));
  EXPECT_EQ(Values<float>(Input("FP32", "[0]", "[]")), std::vector<float>());
  EXPECT_EQ(Values<float>(Input("FP32", "[2,0]", "[[],[]]")), std::vector<float>());
}

TEST_F(Reading, TakesStrings) {
  auto read = Input("BYTES", "[2,2]", R"([["","a\u00e4"],["x\u0000y","\n"]])");
  ASSERT_TRUE(read.ok()) << read.status();
  BytesElements elements(read->request->inputs[0].data.text());
  for (const std::string& expected : {""s, "a\xc3\xa4"s, "x\0y"s, "\n"s}) {
    ASSERT_TRUE(elements.Next());
    EXPECT_EQ(elements.value(), expected);
  }
  EXPECT_FALSE(elements.Next());
  EXPECT_FALSE(elements.truncated());
}

TEST_F(Reading, NamesWhatIsWrongWithData) {
  const std::string mismatch = "Unable to parse 'data': Shape does not match true shape of 'data' field";
  struct Case {
    std::string datatype, shape, data, message;
  };
  for (const Case& c : {
           Case{"FP32", "[2]", "[1]", mismatch},
           Case{"FP32", "[2]", "[1,2,3]", mismatch},
           Case{"BYTES", "[2]", R"(["a"])", mismatch},
           Case{"BYTES", "[1]", R"(["a","b"])", mismatch},
           Case{"FP32", "[1000000000,1000000000]", "[1]", mismatch},
           Case{"FP32", "[1]", R"(["1"])",
                "Unable to parse 'data': attempt to access JSON non-number as double"},
           Case{"FP32", "[1]", "[null]",
                "Unable to parse 'data': attempt to access JSON non-number as double"},
           Case{"FP32", "[1]", "[{}]", "Unable to parse 'data': attempt to access JSON non-number as double"},
           Case{"FP32", "[1]", "1", "Unable to parse 'data': attempt to access JSON non-array as array"},
           Case{"INT32", "[1]", "[1.5]",
                "Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer"},
           Case{"UINT32", "[1]", "[-1]",
                "Unable to parse 'data': attempt to access JSON non-unsigned-integer as unsigned-integer"},
           Case{"BOOL", "[1]", "[1]",
                "Unable to parse 'data': attempt to access JSON non-boolean as boolean"},
           Case{"BYTES", "[1]", "[1]", "Unable to parse 'data': attempt to access JSON non-string as string"},
           Case{"INT8", "[1]", "[128]", "Unable to parse 'data': value is out of range for datatype INT8"},
           Case{"UINT16", "[1]", "[65536]",
                "Unable to parse 'data': value is out of range for datatype UINT16"},
           Case{"INT64", "[1]", "[18446744073709551615]",
                "Unable to parse 'data': value is out of range for datatype INT64"},
           Case{"FP32", "[-1]", "[1]",
                "Unable to parse 'shape': attempt to access JSON non-unsigned-integer as unsigned-integer"},
           Case{"FP32", "[1.0]", "[1]",
                "Unable to parse 'shape': attempt to access JSON non-unsigned-integer as unsigned-integer"},
       }) {
    auto read = Input(c.datatype, c.shape, c.data);
    EXPECT_EQ(read.status(), InternalError(c.message)) << c.data;
  }
}

TEST_F(Reading, RefusesWhatItsProtocolRefuses) {
  const std::string only =
      "Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', "
      "'shared_memory_region' in 'parameters'. But ";
  struct Case {
    std::string json, message;
  };
  for (
      const Case& c : {
          Case{R"({"inputs":[{"name":"I","datatype":"FP32","shape":[1]}]})", only + "no field is set"},
          Case{
              R"({"inputs":[{"name":"I","datatype":"FP32","shape":[1],"data":[1],"parameters":{"binary_data_size":4}}]})",
              only + "both 'data' and 'binary_data_size' are set"},
          Case{R"({"inputs":[{"name":"I","datatype":"FP8","shape":[1],"data":[1]}]})",
               "invalid datatype for input I"},
          Case{
              R"({"inputs":[{"name":"I","datatype":"FP16","shape":[1],"data":[1]}]})",
              "receiving FP16 data via JSON is not supported. Please use the binary data format for input I"},
          Case{
              R"({"inputs":[{"name":"I","datatype":"BF16","shape":[1],"data":[1]}]})",
              "receiving BF16 data via JSON is not supported. Please use the binary data format for input I"},
          Case{
              R"({"inputs":[{"name":"I","datatype":"FP32","shape":[1],"parameters":{"binary_data_size":4}}]})",
              "must specify valid 'Infer-Header-Content-Length' in request header and 'binary_data_size' "
              "when passing "
              "inputs in binary data format"},
          Case{R"({"inputs":[],"parameters":{"triton_x":1}})",
               "parameter keys starting with 'triton_' are reserved for Triton usage and should not be "
               "specified."},
          Case{R"({"inputs":[],"parameters":{"p":[1]}})",
               "parameter 'p' has invalid type. It should be either 'int', 'bool', or 'string'."},
          Case{R"({"inputs":[],"parameters":{"p":null}})",
               "parameter 'p' has invalid type. It should be either 'int', 'bool', or 'string'."},
          Case{R"({"inputs":[],"inputs":[]})", "duplicate key 'inputs' in 'request'"},
          Case{R"({"inputs":[],"parameters":{"p":1,"p":1}})", "duplicate key 'p' in 'parameters'"},
          Case{
              R"({"inputs":[],"outputs":[{"name":"O","parameters":{"shared_memory_region":"r","classification":1}}]})",
              "Output can't set both 'shared_memory_region' and 'classification'"},
          Case{
              R"({"inputs":[],"outputs":[{"name":"O","parameters":{"shared_memory_region":"r","binary_data":true}}]})",
              "Output can't set both 'shared_memory_region' and 'binary_data'"},
      }) {
    EXPECT_EQ(Read(c.json).status(), InvalidArgumentError(c.message)) << c.json;
  }
  const std::pair<const char*, const char*> overflows[] = {
      {"[9223372036854775807,2]",
       "shape [9223372036854775807,2] causes total element count to exceed maximum size of "
       "9223372036854775807"},
      {"[18446744073709551615]",
       "dimension 18446744073709551615 causes total element count to exceed maximum size of "
       "9223372036854775807"},
      {"[2305843009213693952]", "shape [2305843009213693952] of datatype FP32"},
      {"[4611686018427387904,1]", "shape [4611686018427387904,1] of datatype FP32"}};
  for (const auto& [shape, what] : overflows) {
    EXPECT_EQ(Input("FP32", shape, "[1]").status(),
              InvalidArgumentError(std::string("byte size overflow for input 'IN': ") + what));
  }
  EXPECT_EQ(Input("BYTES", "[2305843009213693952]", R"(["a"])").status(),
            InvalidArgumentError(
                "byte size overflow for input 'IN': shape [2305843009213693952] of datatype BYTES"));
  max_input_bytes_ = 7;
  EXPECT_EQ(Input("FP32", "[2]", "[1,2]").status().message(),
            "byte size 8 of input 'IN' exceeds the maximum allowed input size of 7 bytes. Use "
            "--http-max-input-size to "
            "increase the limit.");
}

TEST_F(Reading, TellsSyntaxErrors) {
  for (auto* json : {"{", "[1,]", "{\"a\":}", "nonsense", "\xff", "{} {}", "{\"inputs\":[tru]}"}) {
    auto read = Read(json);
    EXPECT_EQ(read.status().code(), StatusCode::kInternal) << json;
    EXPECT_EQ(read.status().message().rfind("failed to parse the request JSON buffer: ", 0), 0u) << json;
  }
  EXPECT_EQ(Read("[]").status(),
            InternalError("Unable to parse 'request': attempt to access JSON non-object as object"));
}

TEST_F(Reading, BoundsTheNesting) {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + "1" + std::string(depth, ']'); };
  EXPECT_EQ(Values<float>(Input("FP32", "[1]", nested(100))), std::vector<float>{1});
  for (size_t depth : {101u, 500u, 100'000u}) {
    EXPECT_EQ(Input("FP32", "[1]", nested(depth)).status(),
              InvalidArgumentError("JSON nesting depth exceeds maximum allowed limit (100)"))
        << depth;
  }
}

TEST_F(Reading, SortsReservedParametersOut) {
  auto read =
      Read(R"({"id":"7","parameters":{"sequence_id":42,"sequence_start":true,"sequence_end":true,"priority":3,
    "timeout":1000,"binary_data_output":true,"s":"x","b":false,"i":-1,"u":18446744073709551615,"d":0.5},"inputs":[]})");
  ASSERT_TRUE(read.ok()) << read.status();
  const InferenceRequest& request = *read->request;
  EXPECT_EQ(request.id, "7");
  EXPECT_EQ(request.correlation_id, CorrelationId(uint64_t{42}));
  EXPECT_TRUE(request.sequence_start && request.sequence_end);
  EXPECT_EQ(request.priority, 3u);
  EXPECT_EQ(request.timeout_us, 1000u);
  EXPECT_TRUE(read->format.binary_default);
  const Parameters expected = {
      {"s", "x"s}, {"b", false}, {"i", int64_t{-1}}, {"u", uint64_t{UINT64_MAX}}, {"d", 0.5}};
  EXPECT_EQ(request.parameters, expected);
  EXPECT_EQ(Read(R"({"parameters":{"sequence_id":"abc"},"inputs":[]})")->request->correlation_id,
            CorrelationId("abc"s));
  EXPECT_FALSE(Read(R"({"parameters":{"sequence_start":1},"inputs":[]})").ok());
  EXPECT_FALSE(Read(R"({"parameters":{"priority":-1},"inputs":[]})").ok());
}

TEST_F(Reading, ReadsOutputs) {
  auto read = Read(
      R"({"outputs":[{"name":"OUT","parameters":{"classification":2}},{"name":"B","parameters":{"binary_data":false}},
    {"name":"C"}],"inputs":[],"parameters":{"binary_data_output":true}})");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->request->requested_outputs, (std::vector<std::string>{"OUT", "B", "C"}));
  const HttpOutputFormat& format = read->format;
  EXPECT_TRUE(format.binary_default);
  EXPECT_EQ(format.plan.Find("OUT")->classes, 2u);
  EXPECT_EQ(format.plan.Find("OUT")->spec.labels.size(), 2u);
  EXPECT_FALSE(format.plan.Find("B")->binary);
  // The default comes after the outputs in the body, and still applies to them.
  EXPECT_EQ(format.plan.Find("D"), nullptr);
}

TEST_F(Reading, PlansBinaryInputs) {
  const auto binary = [](const std::string& name, int size) {
    return R"({"name":")" + name + R"(","datatype":"FP32","shape":[1],"parameters":{"binary_data_size":)" +
           std::to_string(size) + "}}";
  };
  const std::string json = "{\"inputs\":[" + binary("A", 8) +
                           R"(,{"name":"J","datatype":"INT8","shape":[1],"data":[5]},)" + binary("B", 100) +
                           "]}";
  auto read = Read(json, 108, true);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->destinations.size(), 2u);
  EXPECT_EQ(read->destinations[0].size(), 8u);
  EXPECT_EQ(read->destinations[1].size(), 100u);
  for (const Tensor& input : read->request->inputs) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(input.data.data()) % 64, 0u) << input.name;
  }
  EXPECT_EQ(read->request->inputs[1].data.data()[0], std::byte{5});
  EXPECT_EQ(Read(json, 100, true).status().message(),
            "unexpected size for input 'B', expecting 8 additional bytes for model 'm'");
  EXPECT_EQ(Read(json, 109, true).status().message(), "unexpected additional input data for model 'm'");
  EXPECT_EQ(Read("{\"inputs\":[{\"name\":\"A\",\"datatype\":\"FP32\",\"shape\":[1],\"parameters\":{\"binary_"
                 "data_size\":"
                 "18446744073709551615}}]}",
                 4, true)
                .status()
                .message(),
            "unexpected size for input 'A', expecting 18446744073709551611 additional bytes for model 'm'");
}

TEST_F(Reading, DeducesRawInputs) {
  const auto raw = [this](size_t bytes) {
    return ReadOwn([&](HttpInferRequest& out) {
      return ReadRawInferRequest(bytes, {info_, heap_, max_input_bytes_}, out);
    });
  };
  auto read = raw(12);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(ShapeToString(read->request->inputs[0].shape), "[3]");
  EXPECT_TRUE(read->format.binary_default);
  EXPECT_EQ(read->destinations.at(0).size(), 12u);
  info_.max_batch_size = 8;
  info_.inputs[0].shape = {-1, 2, -1};
  EXPECT_EQ(ShapeToString(raw(24)->request->inputs[0].shape), "[1,2,3]");
  info_.inputs[0].shape = {-1, -1, -1};
  EXPECT_EQ(raw(24).status().message(),
            "The shape of the raw input 'IN' can not be deduced because there are more than one "
            "variable-sized dimension");
  info_.inputs[0] = TensorSpec{.name = "S", .type = DataType::kBytes, .shape = {-1, 1}, .labels = {}};
  auto text = raw(5);
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(ShapeToString(text->request->inputs[0].shape), "[1,1]");
  EXPECT_EQ(text->request->inputs[0].data.size(), 9u);
  EXPECT_EQ(text->destinations.at(0).size(), 5u);
  info_.inputs[0].shape = {-1, 2};
  EXPECT_EQ(raw(5).status().message(),
            "For BYTE datatype raw input 'S', the model must have input shape [1]");
  info_.inputs.push_back(info_.inputs[0]);
  EXPECT_EQ(raw(5).status().message(),
            "Raw request must only have 1 input (found 1) to be deduced but got 2 inputs in 'm' model "
            "configuration");
}

// Mutated requests never crash the reader. Accepted ones have memory for all announced bytes.
TEST_F(Reading, SurvivesRandomMutations) {
  const std::string seeds[] = {
      R"({"id":"a","parameters":{"sequence_id":1,"priority":2,"x":"y"},"inputs":[{"name":"IN","shape":[2,2],"datatype":"FP32",)"
      R"("data":[[1,2],[3,4.5]]},{"name":"B","shape":[1],"datatype":"BYTES","parameters":{"binary_data_size":9}}],)"
      R"("outputs":[{"name":"OUT","parameters":{"binary_data":true,"classification":3}}]})",
      R"({"inputs":[{"name":"S","shape":[3],"datatype":"BYTES","data":["a","\u00e4b",""]},)"
      R"({"name":"I","shape":[1,0],"datatype":"INT8","data":[]}]})",
  };
  constexpr std::string_view kPieces[] = {
      "[",    "]",    "{",  "}", "\"", ",",       ":",    "-1", "1e999", "18446744073709551616",
      "null", "true", "\\", "0", "[[", "\\u0000", "\xff", "99", "INT64", "\"data\":[1]"};
  std::mt19937 random(1);
  for (int i = 0; i < 60'000; ++i) {
    info_.dialect = i % 2 == 0 ? Dialect::kTriton : Dialect::kOvms;
    std::string json = seeds[random() % 2];
    for (unsigned edits = 1 + random() % 4; edits > 0 && !json.empty(); --edits) {
      const size_t at = random() % json.size();
      switch (random() % 4) {
        case 0:
          json.erase(at, 1 + random() % 6);
          break;
        case 1:
          json.insert(at, kPieces[random() % std::size(kPieces)]);
          break;
        case 2:
          json[at] = static_cast<char>(random());
          break;
        default:
          json.insert(at, json.substr(random() % json.size(), random() % 20));
      }
    }
    const size_t binary = random() % 3 == 0 ? random() % 20 : 9;
    auto read = Read(json, binary, true);
    if (!read.ok()) continue;
    size_t sum = 0;
    for (auto span : read->destinations) {
      if (!span.empty()) std::memset(span.data(), 1, span.size());
      sum += span.size();
    }
    ASSERT_EQ(sum, binary) << json;
    static_cast<void>(CheckRequest(info_, *read->request));
  }
}

}  // namespace
}  // namespace braid
