#include "protocols/kserve/grpc/request_reader.h"

#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>

#include "grpc_service.pb.h"

namespace braid {
namespace {

using Random = std::mt19937_64;

// The pieces of a message, each in an allocation of exactly its size, so that a sanitizer sees a read past
// its end.
class Pieces {
 public:
  Pieces(const std::string& bytes, Random& random) {
    size_t at = 0;
    while (at < bytes.size()) {
      const size_t most = random() % 3 == 0 ? 4 : bytes.size();
      const size_t size = std::min(bytes.size() - at, 1 + random() % most);
      Add(bytes.substr(at, size));
      if (random() % 8 == 0) Add("");
      at += size;
    }
  }
  explicit Pieces(const std::string& bytes) { Add(bytes); }

  WireSegments segments() const { return views_; }

 private:
  void Add(const std::string& bytes) {
    memory_.push_back(std::make_unique<char[]>(bytes.size()));
    std::copy(bytes.begin(), bytes.end(), memory_.back().get());
    views_.emplace_back(memory_.back().get(), bytes.size());
  }

  std::vector<std::unique_ptr<char[]>> memory_;
  std::vector<std::string_view> views_;
};

std::string RandomText(Random& random, size_t most = 12) {
  static const std::string kAlphabet[] = {
      "a", "Z", "0", "_", "-", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x90\x8d", " "};
  std::string text;
  for (size_t i = random() % (most + 1); i > 0; --i) text += kAlphabet[random() % std::size(kAlphabet)];
  return text;
}

std::string RandomBytes(Random& random, size_t most) {
  std::string bytes(random() % (most + 1), '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

int64_t RandomNumber(Random& random) {
  return static_cast<int64_t>(random() >> (random() % 64)) * (random() % 4 == 0 ? -1 : 1);
}

void FillParameter(Random& random, inference::InferParameter& parameter) {
  switch (random() % 6) {
    case 0:
      parameter.set_bool_param(random() % 2 == 0);
      break;
    case 1:
      parameter.set_int64_param(RandomNumber(random));
      break;
    case 2:
      parameter.set_string_param(RandomText(random));
      break;
    case 3:
      parameter.set_double_param(static_cast<double>(RandomNumber(random)) / 7);
      break;
    case 4:
      parameter.set_uint64_param(random());
      break;
    default:
      break;  // nothing set
  }
}

template <class Map>
void FillParameters(Random& random, Map& parameters) {
  for (size_t i = random() % 4; i > 0; --i) FillParameter(random, parameters[RandomText(random)]);
}

void FillContents(Random& random, inference::InferTensorContents& contents) {
  for (size_t i = random() % 6; i > 0; --i) {
    switch (random() % 8) {
      case 0:
        contents.add_bool_contents(random() % 2 == 0);
        break;
      case 1:
        contents.add_int_contents(static_cast<int32_t>(RandomNumber(random)));
        break;
      case 2:
        contents.add_int64_contents(RandomNumber(random));
        break;
      case 3:
        contents.add_uint_contents(static_cast<uint32_t>(random()));
        break;
      case 4:
        contents.add_uint64_contents(random());
        break;
      case 5:
        contents.add_fp32_contents(static_cast<float>(RandomNumber(random)));
        break;
      case 6:
        contents.add_fp64_contents(static_cast<double>(RandomNumber(random)));
        break;
      default:
        contents.add_bytes_contents(RandomBytes(random, 9));
        break;
    }
  }
}

inference::ModelInferRequest RandomRequest(Random& random) {
  inference::ModelInferRequest request;
  request.set_model_name(RandomText(random));
  if (random() % 2) request.set_model_version(std::to_string(random() % 100));
  if (random() % 2) request.set_id(RandomText(random, 40));
  FillParameters(random, *request.mutable_parameters());
  for (size_t i = random() % 4; i > 0; --i) {
    auto& input = *request.add_inputs();
    input.set_name(RandomText(random));
    input.set_datatype(RandomText(random));
    for (size_t d = random() % 5; d > 0; --d) input.add_shape(RandomNumber(random));
    FillParameters(random, *input.mutable_parameters());
    if (random() % 2) FillContents(random, *input.mutable_contents());
  }
  for (size_t i = random() % 3; i > 0; --i) {
    auto& output = *request.add_outputs();
    output.set_name(RandomText(random));
    FillParameters(random, *output.mutable_parameters());
  }
  for (size_t i = random() % 4; i > 0; --i) request.add_raw_input_contents(RandomBytes(random, 300));
  return request;
}

// Unknown fields of every kind, groups among them.
std::string UnknownField(Random& random, int depth = 0) {
  const uint32_t field = 16 + static_cast<uint32_t>(random() % 2000);
  const auto tag = [&](uint32_t type) {
    std::string bytes;
    for (uint32_t value = field << 3 | type;; value >>= 7) {
      bytes += static_cast<char>(value >= 0x80 ? (value & 0x7f) | 0x80 : value);
      if (value < 0x80) return bytes;
    }
  };
  switch (random() % 5) {
    case 0:
      return tag(0) + "\x96\x01";
    case 1:
      return tag(1) + "12345678";
    case 2:
      return tag(2) + "\x03" + "abc";
    case 3:
      return tag(5) + "1234";
    default:
      return tag(3) + (depth < 5 ? UnknownField(random, depth + 1) : "") + tag(4);
  }
}

template <class Map>
void ExpectSameParameters(const Map& expected, const WireParameters& actual) {
  ASSERT_EQ(expected.size(), actual.size());
  for (const auto& [key, value] : actual) {
    ASSERT_TRUE(expected.contains(key)) << key;
    const inference::InferParameter& parameter = expected.at(key);
    switch (parameter.parameter_choice_case()) {
      case inference::InferParameter::kBoolParam:
        EXPECT_EQ(value, WireParameter(parameter.bool_param()));
        break;
      case inference::InferParameter::kInt64Param:
        EXPECT_EQ(value, WireParameter(int64_t{parameter.int64_param()}));
        break;
      case inference::InferParameter::kStringParam:
        EXPECT_EQ(value, WireParameter(parameter.string_param()));
        break;
      case inference::InferParameter::kDoubleParam:
        ASSERT_TRUE(std::holds_alternative<double>(value));
        EXPECT_EQ(std::bit_cast<uint64_t>(std::get<double>(value)),
                  std::bit_cast<uint64_t>(parameter.double_param()));
        break;
      case inference::InferParameter::kUint64Param:
        EXPECT_EQ(value, WireParameter(uint64_t{parameter.uint64_param()}));
        break;
      default:
        EXPECT_EQ(value, WireParameter());
        break;
    }
  }
}

std::string Raw(WireSegments segments, const ParsedContents& contents, ContentsField field,
                size_t element_size) {
  std::string bytes(ContentsRawSize(contents, field, element_size), '\0');
  CopyContents(segments, contents, field, element_size, reinterpret_cast<std::byte*>(bytes.data()));
  return bytes;
}

template <class As, class Field>
std::string RawOf(const Field& values) {
  std::string bytes;
  for (auto value : values) {
    const As element = static_cast<As>(value);
    bytes.append(reinterpret_cast<const char*>(&element), sizeof(element));
  }
  return bytes;
}

void ExpectSameContents(WireSegments segments, const inference::InferTensorContents& expected,
                        const ParsedContents& actual) {
  EXPECT_EQ(RawOf<bool>(expected.bool_contents()), Raw(segments, actual, ContentsField::kBool, 1));
  EXPECT_EQ(RawOf<int8_t>(expected.int_contents()), Raw(segments, actual, ContentsField::kInt, 1));
  EXPECT_EQ(RawOf<int32_t>(expected.int_contents()), Raw(segments, actual, ContentsField::kInt, 4));
  EXPECT_EQ(RawOf<int64_t>(expected.int64_contents()), Raw(segments, actual, ContentsField::kInt64, 8));
  EXPECT_EQ(RawOf<uint16_t>(expected.uint_contents()), Raw(segments, actual, ContentsField::kUint, 2));
  EXPECT_EQ(RawOf<uint32_t>(expected.uint_contents()), Raw(segments, actual, ContentsField::kUint, 4));
  EXPECT_EQ(RawOf<uint64_t>(expected.uint64_contents()), Raw(segments, actual, ContentsField::kUint64, 8));
  EXPECT_EQ(RawOf<float>(expected.fp32_contents()), Raw(segments, actual, ContentsField::kFp32, 4));
  EXPECT_EQ(RawOf<double>(expected.fp64_contents()), Raw(segments, actual, ContentsField::kFp64, 8));
  std::string bytes;
  for (const std::string& element : expected.bytes_contents()) {
    const auto size = static_cast<uint32_t>(element.size());
    bytes.append(reinterpret_cast<const char*>(&size), sizeof(size));
    bytes += element;
  }
  EXPECT_EQ(bytes, Raw(segments, actual, ContentsField::kBytes, 0));
}

void ExpectSame(WireSegments segments, const inference::ModelInferRequest& expected,
                const ParsedRequest& actual) {
  EXPECT_EQ(expected.model_name(), actual.model_name);
  EXPECT_EQ(expected.model_version(), actual.model_version);
  EXPECT_EQ(expected.id(), actual.id);
  ExpectSameParameters(expected.parameters(), actual.parameters);
  ASSERT_EQ(static_cast<size_t>(expected.inputs_size()), actual.inputs.size());
  for (int i = 0; i < expected.inputs_size(); ++i) {
    const auto& input = expected.inputs(i);
    const ParsedInput& parsed = actual.inputs[static_cast<size_t>(i)];
    EXPECT_EQ(input.name(), parsed.name);
    EXPECT_EQ(input.datatype(), parsed.datatype);
    EXPECT_TRUE(
        std::equal(input.shape().begin(), input.shape().end(), parsed.shape.begin(), parsed.shape.end()));
    ExpectSameParameters(input.parameters(), parsed.parameters);
    EXPECT_EQ(input.has_contents(), parsed.contents.present());
    ExpectSameContents(segments, input.contents(), parsed.contents);
  }
  ASSERT_EQ(static_cast<size_t>(expected.outputs_size()), actual.outputs.size());
  for (int i = 0; i < expected.outputs_size(); ++i) {
    EXPECT_EQ(expected.outputs(i).name(), actual.outputs[static_cast<size_t>(i)].name);
    ExpectSameParameters(expected.outputs(i).parameters(), actual.outputs[static_cast<size_t>(i)].parameters);
  }
  ASSERT_EQ(static_cast<size_t>(expected.raw_input_contents_size()), actual.raw.size());
  for (int i = 0; i < expected.raw_input_contents_size(); ++i) {
    std::string bytes(actual.raw[static_cast<size_t>(i)].size, '\0');
    CopyRange(segments, actual.raw[static_cast<size_t>(i)], reinterpret_cast<std::byte*>(bytes.data()));
    EXPECT_EQ(expected.raw_input_contents(i), bytes);
  }
}

TEST(GrpcRequestReader, ReadsWhatProtobufWrites) {
  Random random(1);
  for (int round = 0; round < 3000; ++round) {
    SCOPED_TRACE(round);
    const inference::ModelInferRequest expected = RandomRequest(random);
    std::string bytes = expected.SerializeAsString();
    if (random() % 2) bytes += UnknownField(random);
    const Pieces pieces(bytes, random);
    ParsedRequest actual;
    const Status status = ParseInferRequest(pieces.segments(), actual);
    ASSERT_TRUE(status.ok()) << status;
    ExpectSame(pieces.segments(), expected, actual);
    if (HasFailure()) return;
  }
}

TEST(GrpcRequestReader, MergesMessagesGivenTwiceAsProtobufDoes) {
  Random random(2);
  for (int round = 0; round < 500; ++round) {
    SCOPED_TRACE(round);
    std::string bytes = RandomRequest(random).SerializeAsString() + RandomRequest(random).SerializeAsString();
    inference::ModelInferRequest expected;
    ASSERT_TRUE(expected.ParseFromString(bytes));
    const Pieces pieces(bytes, random);
    ParsedRequest actual;
    ASSERT_TRUE(ParseInferRequest(pieces.segments(), actual).ok());
    ExpectSame(pieces.segments(), expected, actual);
    if (HasFailure()) return;
  }
}

TEST(GrpcRequestReader, AgreesWithProtobufOnDamagedMessages) {
  // Protobuf logs each text that is not UTF-8.
  const google::protobuf::LogSilencer silence;
  Random random(3);
  int accepted = 0;
  for (int round = 0; round < 30000; ++round) {
    SCOPED_TRACE(round);
    std::string bytes = RandomRequest(random).SerializeAsString();
    for (size_t changes = 1 + random() % 4; changes > 0 && !bytes.empty(); --changes) {
      const size_t at = random() % bytes.size();
      switch (random() % 5) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
          break;
        case 2:
          bytes.erase(at, 1 + random() % 8);
          break;
        case 3:
          bytes.insert(at, RandomBytes(random, 8));
          break;
        default:
          bytes.insert(at, UnknownField(random));
          break;
      }
    }
    inference::ModelInferRequest expected;
    const bool good = expected.ParseFromString(bytes);
    const Pieces pieces(bytes, random);
    ParsedRequest actual;
    const Status status = ParseInferRequest(pieces.segments(), actual);
    ASSERT_EQ(good, status.ok()) << status;
    if (!good) {
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
      continue;
    }
    ++accepted;
    ExpectSame(pieces.segments(), expected, actual);
    if (HasFailure()) return;
  }
  EXPECT_GT(accepted, 1000);
}

TEST(GrpcRequestReader, SurvivesNoise) {
  Random random(4);
  for (int round = 0; round < 20000; ++round) {
    const Pieces pieces(RandomBytes(random, 64), random);
    ParsedRequest parsed;
    (void)ParseInferRequest(pieces.segments(), parsed);
  }
}

TEST(GrpcRequestReader, TakesNumbersPackedAndOneByOne) {
  // Field 3 of an input: packed [1, 300], then 7 alone.
  const std::string input = std::string("\x1a\x03\x01\xac\x02\x18\x07", 7);
  const Pieces pieces(std::string("\x2a\x07", 2) + input);
  ParsedRequest parsed;
  ASSERT_TRUE(ParseInferRequest(pieces.segments(), parsed).ok());
  ASSERT_EQ(parsed.inputs.size(), 1u);
  EXPECT_EQ(ShapeToString(parsed.inputs[0].shape), "[1,300,7]");
}

TEST(GrpcRequestReader, LimitsWhatOneRequestMayHave) {
  inference::ModelInferRequest request;
  ParsedRequest parsed;
  for (size_t i = 0; i <= InferRequestLimits::kInputs; ++i) request.add_inputs();
  EXPECT_EQ(ParseInferRequest(Pieces(request.SerializeAsString()).segments(), parsed).message(),
            "failed to parse the request: too many inputs");
  request.Clear();
  for (size_t i = 0; i <= InferRequestLimits::kParameters; ++i) {
    (*request.mutable_parameters())[std::to_string(i)].set_bool_param(true);
  }
  EXPECT_EQ(ParseInferRequest(Pieces(request.SerializeAsString()).segments(), parsed).message(),
            "failed to parse the request: too many parameters");
  request.Clear();
  auto& input = *request.add_inputs();
  for (size_t i = 0; i <= InferRequestLimits::kDimensions; ++i) input.add_shape(1);
  EXPECT_EQ(ParseInferRequest(Pieces(request.SerializeAsString()).segments(), parsed).message(),
            "failed to parse the request: too many dimensions");
  // Repeated keys count toward the limit.
  const std::string entry("\x22\x03\x0a\x01k", 5);
  std::string entries;
  for (size_t i = 0; i <= InferRequestLimits::kAllParameters; ++i) entries += entry;
  EXPECT_EQ(ParseInferRequest(Pieces(entries).segments(), parsed).message(),
            "failed to parse the request: too many parameters");
  // Entries of two bytes: a message of 64 MiB has 33 million of them.
  std::string contents;
  for (size_t i = 0; i <= InferRequestLimits::kContents; ++i) contents.append("\x2a\x00", 2);
  std::string message("\x2a\x82\x01", 3);  // 130 bytes of input
  ASSERT_EQ(contents.size(), 130u);
  EXPECT_EQ(ParseInferRequest(Pieces(message + contents).segments(), parsed).message(),
            "failed to parse the request: too many contents");
}

TEST(GrpcRequestReader, RefusesGroupsWithoutEnd) {
  ParsedRequest parsed;
  EXPECT_FALSE(ParseInferRequest(Pieces(std::string(5000000, '\x83')).segments(), parsed).ok());
  std::string groups;
  for (int i = 0; i < 200000; ++i) groups += std::string("\x83\x01", 2);
  EXPECT_FALSE(ParseInferRequest(Pieces(groups).segments(), parsed).ok());
}

}  // namespace
}  // namespace braid
