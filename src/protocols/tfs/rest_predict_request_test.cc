#include "protocols/tfs/rest_predict_request.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "protocols/inference/testing/fake_servable.h"
#include "tensor/bytes_elements.h"

namespace braid {
namespace {

using Random = std::mt19937_64;

// One servable with inputs of every type.
ServableInfo InfoOfAllTypes() {
  ServableInfo info;
  info.name = "m";
  info.dialect = Dialect::kOvms;
  for (int i = 1; i < kDataTypeCount; ++i) {
    TensorSpec& spec = info.inputs.emplace_back();
    spec.name = std::string(WireName(static_cast<DataType>(i)));
    spec.type = static_cast<DataType>(i);
    spec.shape = {-1, -1};
  }
  return info;
}

ServableInfo StatefulInfo() {
  ServableInfo info = InfoOfAllTypes();
  info.stateful = StatefulSpec{.states = {}};
  return info;
}

std::string RandomValue(Random& random, const std::vector<size_t>& shape, size_t depth = 0) {
  if (depth < shape.size()) {
    std::string text = "[";
    // Sometimes an array is shorter or longer than its neighbours.
    const size_t size = shape[depth] + (random() % 64 == 0 ? 1 : 0);
    for (size_t i = 0; i < size; ++i) {
      if (i != 0) text += ',';
      text += RandomValue(random, shape, depth + 1);
    }
    return text + "]";
  }
  static const char* const kLeaves[] = {"0",
                                        "1",
                                        "-1",
                                        "127",
                                        "3.5",
                                        "1e3",
                                        "255",
                                        "7",
                                        "65536",
                                        "1e40",
                                        "true",
                                        "\"a\"",
                                        "{\"b64\":\"YQ==\"}",
                                        "null"};
  // Mostly small numbers, which fit all types.
  return kLeaves[random() % 16 == 0 ? random() % std::size(kLeaves) : random() % 2];
}

std::string RandomBody(Random& random, const ServableInfo& info) {
  std::vector<size_t> shape;
  for (size_t i = random() % 4; i > 0; --i) shape.push_back(random() % 4);
  const auto object = [&] {
    std::string text = "{";
    for (size_t i = 1 + random() % 3; i > 0; --i) {
      if (text.size() > 1) text += ',';
      text += "\"" + info.inputs[random() % info.inputs.size()].name + "\":";
      text += RandomValue(random, shape);
    }
    for (const char* name : {"sequence_id", "sequence_control_input"}) {
      if (!info.stateful || random() % 4 == 0) continue;
      text.append(",\"").append(name).append("\":");
      text += RandomValue(random, std::vector<size_t>(random() % 2, 1));
    }
    return text + "}";
  };
  if (random() % 2 == 0) return "{\"inputs\":" + object() + "}";
  std::string text = "{\"instances\":[";
  const std::string row = object();
  for (size_t i = 1 + random() % 3; i > 0; --i) text += row + (i > 1 ? "," : "");
  return text + "]}";
}

void ExpectWhole(const Tensor& tensor) {
  if (tensor.type == DataType::kInvalid) {
    EXPECT_TRUE(tensor.data.empty());
    return;
  }
  const auto count = ElementCount(tensor.shape);
  ASSERT_TRUE(count.has_value());
  if (tensor.type != DataType::kBytes) {
    EXPECT_EQ(ByteSize(tensor.type, tensor.shape), tensor.data.size());
    return;
  }
  BytesElements elements(tensor.data.text());
  int64_t found = 0;
  while (elements.Next()) ++found;
  EXPECT_FALSE(elements.truncated());
  EXPECT_EQ(found, *count);
}

void ExpectNamedSequence(const InferenceRequest& request) {
  EXPECT_TRUE(request.sequence_start || std::get<uint64_t>(request.correlation_id) != 0);
  for (const Tensor& tensor : request.inputs) {
    EXPECT_NE(tensor.name, "sequence_id");
    EXPECT_NE(tensor.name, "sequence_control_input");
  }
}

class RestPredictRequest : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Stateful, RestPredictRequest, testing::Bool());

TEST_P(RestPredictRequest, NeverMakesATensorThatIsNotWhole) {
  Random random(5);
  FakeServable servable(GetParam() ? StatefulInfo() : InfoOfAllTypes());
  simdjson::dom::parser parser;
  int good = 0;
  int bad = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string body = RandomBody(random, servable.info());
    for (size_t changes = random() % 3; changes > 0; --changes) {
      const size_t at = random() % body.size();
      static const std::string kBytes = "[]{}\",:0e-.b64 \\\xff";
      switch (random() % 3) {
        case 0:
          body[at] = kBytes[random() % kBytes.size()];
          break;
        case 1:
          body.erase(at, 1 + random() % 3);
          if (body.empty()) body = "{}";
          break;
        default:
          body.insert(at, 1, kBytes[random() % kBytes.size()]);
      }
    }
    const size_t size = body.size();
    body.append(simdjson::SIMDJSON_PADDING, '\0');
    InferenceRequest request;
    const auto format =
        ReadRestPredictRequest(std::string_view(body).substr(0, size), {}, servable, parser, request);
    ++(format.ok() ? good : bad);
    if (!format.ok()) {
      EXPECT_NE(format.status().message(), "");
      continue;
    }
    for (const Tensor& tensor : request.inputs) ExpectWhole(tensor);
    if (GetParam()) ExpectNamedSequence(request);
  }
  EXPECT_GT(good, GetParam() ? 500 : 2000);
  EXPECT_GT(bad, 2000);
}

}  // namespace
}  // namespace braid
