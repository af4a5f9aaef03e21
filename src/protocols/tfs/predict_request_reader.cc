#include "protocols/tfs/predict_request_reader.h"

#include <cstring>
#include <optional>
#include <unordered_map>

#include "base/check.h"
#include "protocols/tfs/data_types.h"
#include "tensorflow_serving.pb.h"

namespace braid {
namespace {

using tensorflow::TensorProto;
using tensorflow::TensorShapeProto;
using tensorflow::serving::ModelSpec;
using tensorflow::serving::PredictRequest;

bool IsBytes(const WireTag& tag) { return tag.type == WireType::kBytes; }
bool IsVarint(const WireTag& tag) { return tag.type == WireType::kVarint; }

// Returns the wire type of one element of a *_val field; nullopt for other fields.
std::optional<WireType> ElementWireType(uint32_t field) {
  switch (field) {
    case TensorProto::kFloatValFieldNumber:
    case TensorProto::kScomplexValFieldNumber:
      return WireType::kFixed32;
    case TensorProto::kDoubleValFieldNumber:
    case TensorProto::kDcomplexValFieldNumber:
      return WireType::kFixed64;
    case TensorProto::kStringValFieldNumber:
      return WireType::kBytes;
    case TensorProto::kIntValFieldNumber:
    case TensorProto::kInt64ValFieldNumber:
    case TensorProto::kBoolValFieldNumber:
    case TensorProto::kHalfValFieldNumber:
    case TensorProto::kUint32ValFieldNumber:
    case TensorProto::kUint64ValFieldNumber:
      return WireType::kVarint;
    default:
      return std::nullopt;
  }
}

// Returns whether protobuf accepts such a field as elements; it skips other fields as unknown.
bool IsValueField(const WireTag& tag) {
  const std::optional<WireType> element = ElementWireType(tag.field);
  return element && (tag.type == *element || IsBytes(tag));
}

class PredictParser {
 public:
  PredictParser(WireSegments segments, ParsedPredictRequest& request) : in_(segments), request_(request) {}

  Status Parse() {
    const bool ok = in_.ReadFields([this](const WireTag& tag) { return Field(tag); });
    if (ok) return OkStatus();
    return InvalidArgumentError(limit_.empty()
                                    ? "failed to parse the request: malformed PredictRequest"
                                    : "failed to parse the request: too many " + std::string(limit_));
  }

 private:
  bool TooMany(std::string_view what) {
    limit_ = what;
    return false;
  }

  bool Field(const WireTag& tag) {
    if (!IsBytes(tag)) return in_.SkipField(tag);
    switch (tag.field) {
      case PredictRequest::kModelSpecFieldNumber:
        return Model();
      case PredictRequest::kInputsFieldNumber:
        return Input();
      case PredictRequest::kOutputFilterFieldNumber:
        if (request_.output_filter.size() == PredictRequestLimits::kOutputs) return TooMany("output filters");
        return in_.ReadText(request_.output_filter.emplace_back());
      default:
        return in_.SkipField(tag);
    }
  }

  bool Model() {
    ParsedModelSpec& model = request_.model;
    model.present = true;
    return in_.ReadMessage([&](const WireTag& tag) {
      if (!IsBytes(tag)) return in_.SkipField(tag);
      switch (tag.field) {
        case ModelSpec::kNameFieldNumber:
          return in_.ReadText(model.name);
        case ModelSpec::kVersionFieldNumber:
          return Version(model);
        case ModelSpec::kVersionLabelFieldNumber:
          // The other choice of the same `oneof`; labels are ignored.
          version_chosen_ = false;
          model.version = 0;
          return in_.ReadText(ignored_);
        case ModelSpec::kSignatureNameFieldNumber:
          return in_.ReadText(ignored_);
        default:
          return in_.SkipField(tag);
      }
    });
  }

  // Reads an Int64Value.
  bool Version(ParsedModelSpec& model) {
    if (!version_chosen_) model.version = 0;
    version_chosen_ = true;
    return in_.ReadMessage([&](const WireTag& tag) {
      if (tag.field != 1 || !IsVarint(tag)) return in_.SkipField(tag);
      uint64_t number = 0;
      if (!in_.ReadVarint(number)) return false;
      model.version = static_cast<int64_t>(number);
      return true;
    });
  }

  // Reads one entry of map<string, TensorProto>. The last entry with a key wins.
  bool Input() {
    ParsedTensor tensor;
    const bool ok = in_.ReadMessage([&](const WireTag& tag) {
      if (tag.field == 1 && IsBytes(tag)) return in_.ReadText(tensor.name);
      if (tag.field == 2 && IsBytes(tag)) return Proto(tensor);
      return in_.SkipField(tag);
    });
    if (!ok) return false;
    const auto [place, is_new] = places_.try_emplace(tensor.name, request_.inputs.size());
    if (!is_new) {
      request_.inputs[place->second] = std::move(tensor);
      return true;
    }
    if (request_.inputs.size() == PredictRequestLimits::kInputs) return TooMany("inputs");
    request_.inputs.push_back(std::move(tensor));
    return true;
  }

  // Records the place of the bytes, then parses them.
  bool Proto(ParsedTensor& tensor) {
    if (tensor.parts.size() == PredictRequestLimits::kParts) return TooMany("parts of an input");
    ProtobufReader ahead = in_;
    if (!ahead.ReadRange(tensor.parts.emplace_back())) return false;
    return in_.ReadMessage([&](const WireTag& tag) {
      switch (tag.field) {
        case TensorProto::kDtypeFieldNumber:
          return IsVarint(tag) ? Dtype(tensor) : in_.SkipField(tag);
        case TensorProto::kTensorShapeFieldNumber:
          return IsBytes(tag) ? ShapeOf(tensor) : in_.SkipField(tag);
        case TensorProto::kTensorContentFieldNumber:
          return IsBytes(tag) ? in_.ReadRange(tensor.content) : in_.SkipField(tag);
        default:
          return IsValueField(tag) ? Values(tag, tensor) : in_.SkipField(tag);
      }
    });
  }

  bool Dtype(ParsedTensor& tensor) {
    uint64_t number = 0;
    if (!in_.ReadVarint(number)) return false;
    // As in protobuf, an enumeration has 32 bits.
    tensor.dtype = static_cast<uint32_t>(number);
    return true;
  }

  bool ShapeOf(ParsedTensor& tensor) {
    return in_.ReadMessage([&](const WireTag& tag) {
      if (tag.field == TensorShapeProto::kDimFieldNumber && IsBytes(tag)) {
        if (tensor.shape.size() == PredictRequestLimits::kDimensions) return TooMany("dimensions");
        return Dimension(tensor.shape.emplace_back(0));
      }
      if (tag.field == TensorShapeProto::kUnknownRankFieldNumber && IsVarint(tag)) {
        uint64_t flag = 0;
        if (!in_.ReadVarint(flag)) return false;
        tensor.unknown_rank = flag != 0;
        return true;
      }
      return in_.SkipField(tag);
    });
  }

  bool Dimension(int64_t& size) {
    return in_.ReadMessage([&](const WireTag& tag) {
      if (tag.field == TensorShapeProto::Dim::kSizeFieldNumber && IsVarint(tag)) {
        uint64_t number = 0;
        if (!in_.ReadVarint(number)) return false;
        size = static_cast<int64_t>(number);
        return true;
      }
      if (tag.field == TensorShapeProto::Dim::kNameFieldNumber && IsBytes(tag)) return in_.ReadText(ignored_);
      return in_.SkipField(tag);
    });
  }

  bool Values(const WireTag& tag, ParsedTensor& tensor) {
    uint64_t& count = tensor.values[tag.field];
    switch (*ElementWireType(tag.field)) {
      case WireType::kFixed32:
        return FixedValues(tag, 4, count);
      case WireType::kFixed64:
        return FixedValues(tag, 8, count);
      case WireType::kBytes: {
        size_t length = 0;
        if (!in_.ReadLength(length) || !in_.Skip(length)) return false;
        ++count;
        tensor.string_bytes += length;
        tensor.has_empty_string |= length == 0;
        return true;
      }
      default:
        return in_.ReadRepeated(tag, [&] {
          uint64_t number = 0;
          ++count;
          return in_.ReadVarint(number);
        });
    }
  }

  bool FixedValues(const WireTag& tag, size_t element_size, uint64_t& count) {
    size_t length = element_size;
    if (IsBytes(tag) && !in_.ReadLength(length)) return false;
    if (length % element_size != 0) return false;
    count += length / element_size;
    return in_.Skip(length);
  }

  ProtobufReader in_;
  ParsedPredictRequest& request_;
  std::unordered_map<std::string, size_t> places_;  // of the inputs
  bool version_chosen_ = false;
  std::string ignored_;
  std::string_view limit_;
};

}  // namespace

Status ParsePredictRequest(WireSegments segments, ParsedPredictRequest& request) {
  return PredictParser(segments, request).Parse();
}

uint64_t RawValuesSize(const ParsedTensor& tensor, DataType type) {
  // No overflow: every element uses at least one byte of a message of less than 2 GiB.
  const uint64_t count = tensor.values[ValueField(type)];
  return type == DataType::kBytes ? count * sizeof(uint32_t) + tensor.string_bytes
                                  : count * ElementSize(type);
}

void CopyValues(WireSegments segments, const ParsedTensor& tensor, DataType type, std::byte* to) {
  const uint32_t field = ValueField(type);
  using Element = ProtobufReader::Element;
  const WireType wire = *ElementWireType(field);
  const Element element = wire == WireType::kBytes    ? Element::kBytes
                          : wire != WireType::kVarint ? Element::kFixed
                          : type == DataType::kBool   ? Element::kBool
                                                      : Element::kVarint;
  for (const WireRange& part : tensor.parts) {
    ProtobufReader in(segments, part);
    const bool ok = in.ReadFields([&](const WireTag& tag) {
      if (tag.field != field || !IsValueField(tag)) return in.SkipField(tag);
      return in.CopyRepeated(tag, element, ElementSize(type), to);
    });
    // The same bytes passed the same checks before.
    BRAID_CHECK(ok);
  }
}

}  // namespace braid
