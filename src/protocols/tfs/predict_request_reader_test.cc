#include "protocols/tfs/predict_request_reader.h"

#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <random>

#include "protocols/tfs/data_types.h"
#include "tensorflow_serving.pb.h"

namespace braid {
namespace {

using Random = std::mt19937_64;
using tensorflow::TensorProto;
using tensorflow::serving::PredictRequest;

// The pieces of a message, each in an allocation of exactly its size, so that a sanitizer sees a read past
// its end.
class Pieces {
 public:
  Pieces(const std::string& bytes, Random& random) {
    for (size_t at = 0; at < bytes.size();) {
      const size_t most = random() % 3 == 0 ? 4 : bytes.size();
      const size_t size = std::min(bytes.size() - at, 1 + random() % most);
      memory_.push_back(std::make_unique<char[]>(size));
      std::memcpy(memory_.back().get(), bytes.data() + at, size);
      views_.emplace_back(memory_.back().get(), size);
      at += size;
    }
  }
  WireSegments segments() const { return views_; }

 private:
  std::vector<std::unique_ptr<char[]>> memory_;
  std::vector<std::string_view> views_;
};

std::string RandomText(Random& random) {
  static const std::string kAlphabet[] = {"a", "Z", "0", "_", "\xc3\xa4", "\xf0\x9f\x90\x8d", " "};
  std::string text;
  for (size_t i = random() % 6; i > 0; --i) text += kAlphabet[random() % std::size(kAlphabet)];
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

void FillTensor(Random& random, TensorProto& tensor) {
  tensor.set_dtype(static_cast<tensorflow::DataType>(random() % 26));
  for (size_t i = random() % 4; i > 0; --i) {
    auto& dim = *tensor.mutable_tensor_shape()->add_dim();
    dim.set_size(RandomNumber(random));
    if (random() % 4 == 0) dim.set_name(RandomText(random));
  }
  if (random() % 8 == 0) tensor.mutable_tensor_shape()->set_unknown_rank(true);
  if (random() % 2 == 0) tensor.set_tensor_content(RandomBytes(random, 40));
  for (size_t i = random() % 12; i > 0; --i) {
    switch (random() % 9) {
      case 0:
        tensor.add_float_val(static_cast<float>(RandomNumber(random)));
        break;
      case 1:
        tensor.add_double_val(static_cast<double>(RandomNumber(random)));
        break;
      case 2:
        tensor.add_int_val(static_cast<int32_t>(RandomNumber(random)));
        break;
      case 3:
        tensor.add_string_val(RandomBytes(random, 9));
        break;
      case 4:
        tensor.add_int64_val(RandomNumber(random));
        break;
      case 5:
        tensor.add_bool_val(random() % 2 == 0);
        break;
      case 6:
        tensor.add_half_val(static_cast<int32_t>(random() & 0xffff));
        break;
      case 7:
        tensor.add_uint32_val(static_cast<uint32_t>(random()));
        break;
      default:
        tensor.add_uint64_val(random());
    }
  }
}

PredictRequest RandomRequest(Random& random) {
  PredictRequest request;
  if (random() % 8 != 0) {
    auto& model = *request.mutable_model_spec();
    model.set_name(RandomText(random));
    if (random() % 2 == 0) model.mutable_version()->set_value(RandomNumber(random));
    if (random() % 4 == 0) model.set_version_label(RandomText(random));
    model.set_signature_name(RandomText(random));
  }
  for (size_t i = random() % 4; i > 0; --i) {
    FillTensor(random, (*request.mutable_inputs())[RandomText(random)]);
  }
  for (size_t i = random() % 3; i > 0; --i) request.add_output_filter(RandomText(random));
  return request;
}

template <class T>
void Append(std::string& to, const T& value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Returns the expected result of CopyValues().
std::string RawValues(const TensorProto& tensor, DataType type) {
  std::string raw;
  const auto cut = [&raw, type](const auto& values) {
    for (auto value : values) {
      uint64_t bits = 0;
      std::memcpy(&bits, &value, sizeof(value));
      raw.append(reinterpret_cast<const char*>(&bits), ElementSize(type));
    }
  };
  switch (ValueField(type)) {
    case TensorProto::kFloatValFieldNumber:
      cut(tensor.float_val());
      break;
    case TensorProto::kDoubleValFieldNumber:
      cut(tensor.double_val());
      break;
    case TensorProto::kIntValFieldNumber:
      cut(tensor.int_val());
      break;
    case TensorProto::kInt64ValFieldNumber:
      cut(tensor.int64_val());
      break;
    case TensorProto::kBoolValFieldNumber:
      cut(tensor.bool_val());
      break;
    case TensorProto::kHalfValFieldNumber:
      cut(tensor.half_val());
      break;
    case TensorProto::kUint32ValFieldNumber:
      cut(tensor.uint32_val());
      break;
    case TensorProto::kUint64ValFieldNumber:
      cut(tensor.uint64_val());
      break;
    default:
      for (const std::string& text : tensor.string_val()) {
        Append(raw, static_cast<uint32_t>(text.size()));
        raw += text;
      }
  }
  return raw;
}

void ExpectSame(WireSegments segments, const ParsedPredictRequest& parsed, const PredictRequest& expected) {
  EXPECT_EQ(parsed.model.present, expected.has_model_spec());
  EXPECT_EQ(parsed.model.name, expected.model_spec().name());
  EXPECT_EQ(parsed.model.version, expected.model_spec().version().value());
  ASSERT_EQ(parsed.output_filter.size(), static_cast<size_t>(expected.output_filter_size()));
  for (int i = 0; i < expected.output_filter_size(); ++i) {
    EXPECT_EQ(parsed.output_filter[static_cast<size_t>(i)], expected.output_filter(i));
  }
  ASSERT_EQ(parsed.inputs.size(), expected.inputs().size());
  for (const ParsedTensor& tensor : parsed.inputs) {
    ASSERT_TRUE(expected.inputs().contains(tensor.name));
    const TensorProto& proto = expected.inputs().at(tensor.name);
    EXPECT_EQ(tensor.dtype, static_cast<uint32_t>(proto.dtype()));
    ASSERT_EQ(tensor.shape.size(), static_cast<size_t>(proto.tensor_shape().dim_size()));
    for (int i = 0; i < proto.tensor_shape().dim_size(); ++i) {
      EXPECT_EQ(tensor.shape[static_cast<size_t>(i)], proto.tensor_shape().dim(i).size());
    }
    EXPECT_EQ(tensor.unknown_rank, proto.tensor_shape().unknown_rank());
    std::string content(tensor.content.size, '\0');
    CopyRange(segments, tensor.content, reinterpret_cast<std::byte*>(content.data()));
    EXPECT_EQ(content, proto.tensor_content());
    for (int i = 1; i < kDataTypeCount; ++i) {
      const auto type = static_cast<DataType>(i);
      const std::string values = RawValues(proto, type);
      ASSERT_EQ(RawValuesSize(tensor, type), values.size());
      std::string copied(values.size(), '\0');
      CopyValues(segments, tensor, type, reinterpret_cast<std::byte*>(copied.data()));
      EXPECT_EQ(copied, values) << WireName(type);
    }
  }
}

TEST(PredictRequestReader, ReadsWhatProtobufWrites) {
  Random random(1);
  for (int i = 0; i < 2000; ++i) {
    const PredictRequest expected = RandomRequest(random);
    const Pieces pieces(expected.SerializeAsString(), random);
    ParsedPredictRequest parsed;
    const Status status = ParsePredictRequest(pieces.segments(), parsed);
    ASSERT_TRUE(status.ok()) << status;
    ExpectSame(pieces.segments(), parsed, expected);
  }
}

TEST(PredictRequestReader, MergesAsProtobufDoes) {
  Random random(2);
  for (int i = 0; i < 2000; ++i) {
    const std::string bytes =
        RandomRequest(random).SerializeAsString() + RandomRequest(random).SerializeAsString();
    PredictRequest expected;
    ASSERT_TRUE(expected.ParseFromString(bytes));
    const Pieces pieces(bytes, random);
    ParsedPredictRequest parsed;
    ASSERT_TRUE(ParsePredictRequest(pieces.segments(), parsed).ok());
    ExpectSame(pieces.segments(), parsed, expected);
  }
  // A tensor in two parts inside one entry.
  TensorProto first;
  first.set_dtype(tensorflow::DT_FLOAT);
  first.add_float_val(1);
  TensorProto second;
  second.mutable_tensor_shape()->add_dim()->set_size(2);
  second.add_float_val(2);
  const auto field = [](char tag, const std::string& value) {
    return std::string{tag, static_cast<char>(value.size())} + value;
  };
  const std::string entry =
      field(0x0a, "x") + field(0x12, first.SerializeAsString()) + field(0x12, second.SerializeAsString());
  const std::string bytes = field(0x12, entry);
  PredictRequest expected;
  ASSERT_TRUE(expected.ParseFromString(bytes));
  ASSERT_EQ(expected.inputs().at("x").float_val_size(), 2);
  const Pieces pieces(bytes, random);
  ParsedPredictRequest parsed;
  ASSERT_TRUE(ParsePredictRequest(pieces.segments(), parsed).ok());
  ExpectSame(pieces.segments(), parsed, expected);
}

TEST(PredictRequestReader, AgreesWithProtobufAboutBrokenMessages) {
  // Protobuf logs broken UTF-8 as an error.
  const google::protobuf::LogSilencer silence;
  Random random(3);
  int accepted = 0;
  int refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = RandomRequest(random).SerializeAsString();
    for (size_t changes = 1 + random() % 4; changes > 0 && !bytes.empty(); --changes) {
      const size_t at = random() % bytes.size();
      switch (random() % 4) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
          break;
        case 2:
          bytes.erase(at, 1 + random() % 8);
          break;
        default:
          bytes.insert(at, RandomBytes(random, 8));
      }
    }
    const Pieces pieces(bytes, random);
    ParsedPredictRequest parsed;
    const Status status = ParsePredictRequest(pieces.segments(), parsed);
    PredictRequest expected;
    const bool good = expected.ParseFromString(bytes);
    ASSERT_EQ(status.ok(), good) << status << " at " << i;
    if (good) ExpectSame(pieces.segments(), parsed, expected);
    ++(good ? accepted : refused);
  }
  EXPECT_GT(accepted, 1000);
  EXPECT_GT(refused, 1000);
}

TEST(PredictRequestReader, BoundsWhatARequestHas) {
  Random random(4);
  PredictRequest request;
  for (int i = 0; i < 65; ++i) (*request.mutable_inputs())["x"].mutable_tensor_shape()->add_dim();
  ParsedPredictRequest parsed;
  EXPECT_EQ(ParsePredictRequest(Pieces(request.SerializeAsString(), random).segments(), parsed),
            InvalidArgumentError("failed to parse the request: too many dimensions"));
  request.Clear();
  for (int i = 0; i < 4097; ++i) (*request.mutable_inputs())[std::to_string(i)];
  parsed = {};
  EXPECT_EQ(ParsePredictRequest(Pieces(request.SerializeAsString(), random).segments(), parsed),
            InvalidArgumentError("failed to parse the request: too many inputs"));
  request.Clear();
  for (int i = 0; i < 4097; ++i) request.add_output_filter("");
  parsed = {};
  EXPECT_EQ(ParsePredictRequest(Pieces(request.SerializeAsString(), random).segments(), parsed),
            InvalidArgumentError("failed to parse the request: too many output filters"));
  // An entry of `inputs` whose value is repeated, with two bytes each time.
  std::string parts;
  for (size_t i = 0; i <= PredictRequestLimits::kParts; ++i) parts.append("\x12\x00", 2);
  ASSERT_EQ(parts.size(), 130u);
  parsed = {};
  EXPECT_EQ(ParsePredictRequest(Pieces(std::string("\x12\x82\x01", 3) + parts, random).segments(), parsed),
            InvalidArgumentError("failed to parse the request: too many parts of an input"));
}

}  // namespace
}  // namespace braid
