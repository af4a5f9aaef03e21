#include "protocols/kserve/grpc/request_reader.h"

#include <bit>
#include <cstring>

#include "base/check.h"

namespace braid {
namespace {

// Wire types with which a field is accepted; protobuf skips other ones as unknown.
bool IsBytes(const WireTag& tag) { return tag.type == WireType::kBytes; }
bool IsRepeated(const WireTag& tag, WireType element) {
  return tag.type == element || tag.type == WireType::kBytes;
}

WireType ElementWireType(ContentsField field) {
  switch (field) {
    case ContentsField::kFp32:
      return WireType::kFixed32;
    case ContentsField::kFp64:
      return WireType::kFixed64;
    case ContentsField::kBytes:
      return WireType::kBytes;
    default:
      return WireType::kVarint;
  }
}

bool IsContentsField(const WireTag& tag) {
  if (tag.field < 1 || tag.field > kContentsFieldCount) return false;
  const WireType element = ElementWireType(static_cast<ContentsField>(tag.field));
  return element == WireType::kBytes ? IsBytes(tag) : IsRepeated(tag, element);
}

class RequestParser {
 public:
  RequestParser(WireSegments segments, ParsedRequest& request) : in_(segments), request_(request) {}

  Status Parse() {
    const bool ok = in_.ReadFields([this](const WireTag& tag) { return Field(tag); });
    if (!ok && limit_.empty())
      return InvalidArgumentError("failed to parse the request: malformed ModelInferRequest");
    if (!ok) return InvalidArgumentError("failed to parse the request: too many " + std::string(limit_));
    return OkStatus();
  }

 private:
  bool TooMany(std::string_view what) {
    limit_ = what;
    return false;
  }

  bool Field(const WireTag& tag) {
    if (!IsBytes(tag)) return in_.SkipField(tag);
    switch (tag.field) {
      case 1:
        return in_.ReadText(request_.model_name);
      case 2:
        return in_.ReadText(request_.model_version);
      case 3:
        return in_.ReadText(request_.id);
      case 4:
        return ParameterEntry(request_.parameters);
      case 5:
        if (request_.inputs.size() == InferRequestLimits::kInputs) return TooMany("inputs");
        return Input(request_.inputs.emplace_back());
      case 6:
        if (request_.outputs.size() == InferRequestLimits::kOutputs) return TooMany("outputs");
        return Output(request_.outputs.emplace_back());
      case 7:
        if (request_.raw.size() == InferRequestLimits::kInputs) return TooMany("raw_input_contents");
        return in_.ReadRange(request_.raw.emplace_back());
      default:
        return in_.SkipField(tag);
    }
  }

  bool Input(ParsedInput& input) {
    return in_.ReadMessage([&](const WireTag& tag) {
      if (tag.field == 3 && IsRepeated(tag, WireType::kVarint)) {
        return in_.ReadRepeated(tag, [&] {
          uint64_t dimension = 0;
          if (!in_.ReadVarint(dimension)) return false;
          if (input.shape.size() == InferRequestLimits::kDimensions) return TooMany("dimensions");
          input.shape.push_back(static_cast<int64_t>(dimension));
          return true;
        });
      }
      if (!IsBytes(tag)) return in_.SkipField(tag);
      switch (tag.field) {
        case 1:
          return in_.ReadText(input.name);
        case 2:
          return in_.ReadText(input.datatype);
        case 4:
          return ParameterEntry(input.parameters);
        case 5:
          return Contents(input.contents);
        default:
          return in_.SkipField(tag);
      }
    });
  }

  bool Output(ParsedOutput& output) {
    return in_.ReadMessage([&](const WireTag& tag) {
      if (!IsBytes(tag)) return in_.SkipField(tag);
      switch (tag.field) {
        case 1:
          return in_.ReadText(output.name);
        case 2:
          return ParameterEntry(output.parameters);
        default:
          return in_.SkipField(tag);
      }
    });
  }

  // Reads one entry of a map<string, InferParameter>.
  bool ParameterEntry(WireParameters& parameters) {
    if (++parameter_entries_ > InferRequestLimits::kAllParameters) return TooMany("parameters");
    std::string key;
    WireParameter value;
    const bool ok = in_.ReadMessage([&](const WireTag& tag) {
      if (tag.field == 1 && IsBytes(tag)) return in_.ReadText(key);
      if (tag.field == 2 && IsBytes(tag)) return Parameter(value);
      return in_.SkipField(tag);
    });
    if (!ok) return false;
    for (auto& [known, old_value] : parameters) {
      if (known == key) {
        old_value = std::move(value);
        return true;
      }
    }
    if (parameters.size() == InferRequestLimits::kParameters) return TooMany("parameters");
    parameters.emplace_back(std::move(key), std::move(value));
    return true;
  }

  bool Parameter(WireParameter& value) {
    return in_.ReadMessage([&](const WireTag& tag) {
      uint64_t number = 0;
      if (tag.field == 1 && tag.type == WireType::kVarint) {
        if (!in_.ReadVarint(number)) return false;
        value = number != 0;
        return true;
      }
      if (tag.field == 2 && tag.type == WireType::kVarint) {
        if (!in_.ReadVarint(number)) return false;
        value = static_cast<int64_t>(number);
        return true;
      }
      if (tag.field == 3 && IsBytes(tag)) {
        std::string text;
        if (!in_.ReadText(text)) return false;
        value = std::move(text);
        return true;
      }
      if (tag.field == 4 && tag.type == WireType::kFixed64) {
        if (!in_.ReadFixed64(number)) return false;
        value = std::bit_cast<double>(number);
        return true;
      }
      if (tag.field == 5 && tag.type == WireType::kVarint) {
        if (!in_.ReadVarint(number)) return false;
        value = number;
        return true;
      }
      return in_.SkipField(tag);
    });
  }

  // Checks and counts the elements. They are read again when their destination is known.
  bool Contents(ParsedContents& contents) {
    if (contents.ranges.size() == InferRequestLimits::kContents) return TooMany("contents");
    ProtobufReader ahead = in_;
    if (!ahead.ReadRange(contents.ranges.emplace_back())) return false;
    return in_.ReadMessage([&](const WireTag& tag) {
      if (!IsContentsField(tag)) return in_.SkipField(tag);
      const auto field = static_cast<ContentsField>(tag.field);
      uint64_t& elements = contents.elements[tag.field - 1];
      switch (field) {
        case ContentsField::kBytes: {
          size_t length = 0;
          if (!in_.ReadLength(length) || !in_.Skip(length)) return false;
          ++elements;
          contents.bytes_size += length;
          return true;
        }
        case ContentsField::kFp32:
          return in_.ReadRepeated(tag, [&] {
            ++elements;
            return in_.Skip(4);
          });
        case ContentsField::kFp64:
          return in_.ReadRepeated(tag, [&] {
            ++elements;
            return in_.Skip(8);
          });
        default:
          return in_.ReadRepeated(tag, [&] {
            uint64_t number = 0;
            ++elements;
            return in_.ReadVarint(number);
          });
      }
    });
  }

  ProtobufReader in_;
  ParsedRequest& request_;
  size_t parameter_entries_ = 0;  // of the request and all its tensors, including repeated keys
  std::string_view limit_;        // the exceeded limit
};

}  // namespace

const WireParameter* FindParameter(const WireParameters& parameters, std::string_view key) {
  for (const auto& [known, value] : parameters) {
    if (known == key) return &value;
  }
  return nullptr;
}

void ParsedRequest::Clear() {
  model_name.clear();
  model_version.clear();
  id.clear();
  parameters.clear();
  inputs.clear();
  outputs.clear();
  raw.clear();
}

Status ParseInferRequest(WireSegments segments, ParsedRequest& request) {
  request.Clear();
  return RequestParser(segments, request).Parse();
}

std::optional<ContentsField> ContentsFieldFor(DataType type) {
  switch (type) {
    case DataType::kBool:
      return ContentsField::kBool;
    case DataType::kInt8:
    case DataType::kInt16:
    case DataType::kInt32:
      return ContentsField::kInt;
    case DataType::kInt64:
      return ContentsField::kInt64;
    case DataType::kUint8:
    case DataType::kUint16:
    case DataType::kUint32:
      return ContentsField::kUint;
    case DataType::kUint64:
      return ContentsField::kUint64;
    case DataType::kFp32:
      return ContentsField::kFp32;
    case DataType::kFp64:
      return ContentsField::kFp64;
    case DataType::kBytes:
      return ContentsField::kBytes;
    default:
      return std::nullopt;  // 16-bit floats are only sent raw
  }
}

size_t ContentsRawSize(const ParsedContents& contents, ContentsField field, size_t element_size) {
  // No overflow: every element uses at least one byte of a message of less than 2 GiB.
  const uint64_t count = contents.count(field);
  if (field == ContentsField::kBytes) return count * sizeof(uint32_t) + contents.bytes_size;
  return count * element_size;
}

void CopyContents(WireSegments segments, const ParsedContents& contents, ContentsField field,
                  size_t element_size, std::byte* to) {
  using Element = ProtobufReader::Element;
  const Element element = field == ContentsField::kBytes                                   ? Element::kBytes
                          : field == ContentsField::kFp32 || field == ContentsField::kFp64 ? Element::kFixed
                          : field == ContentsField::kBool                                  ? Element::kBool
                                                                                           : Element::kVarint;
  for (const WireRange& range : contents.ranges) {
    ProtobufReader in(segments, range);
    const bool ok = in.ReadFields([&](const WireTag& tag) {
      if (tag.field != static_cast<uint32_t>(field) || !IsContentsField(tag)) return in.SkipField(tag);
      return in.CopyRepeated(tag, element, element_size, to);
    });
    // The same bytes passed the same checks before.
    BRAID_CHECK(ok);
  }
}

}  // namespace braid
