#include "protocols/kserve/grpc_response_writer.h"

#include <bit>
#include <boost/container/small_vector.hpp>
#include <charconv>
#include <optional>
#include <string>

#include "tensor/tensor.h"

namespace braid {
namespace {

constexpr uint32_t kVarint = 0;
constexpr uint32_t kFixed64 = 1;
constexpr uint32_t kLengthDelimited = 2;

// ModelInferResponse
constexpr uint32_t kModelName = 1;
constexpr uint32_t kModelVersion = 2;
constexpr uint32_t kId = 3;
constexpr uint32_t kParameters = 4;
constexpr uint32_t kOutputs = 5;
constexpr uint32_t kRawOutputContents = 6;
// InferOutputTensor
constexpr uint32_t kOutputName = 1;
constexpr uint32_t kOutputDatatype = 2;
constexpr uint32_t kOutputShape = 3;
// ModelStreamInferResponse
constexpr uint32_t kErrorMessage = 1;
constexpr uint32_t kInferResponse = 2;

constexpr std::string_view kFinalResponse = "triton_final_response";

size_t VarintSize(uint64_t value) { return static_cast<size_t>((std::bit_width(value | 1) + 6) / 7); }

// All field numbers here are below 16, so that a tag is one byte.
size_t TextFieldSize(std::string_view text) { return 1 + VarintSize(text.size()) + text.size(); }

class MessageBuilder {
 public:
  MessageBuilder() {
    head_.reserve(512);
    head_.append(kPrefixRoom, '\0');
  }

  void Varint(uint64_t value) {
    while (value >= 0x80) {
      head_ += static_cast<char>(value | 0x80);
      value >>= 7;
    }
    head_ += static_cast<char>(value);
  }
  void Tag(uint32_t field, uint32_t type) { Varint(field << 3 | type); }
  void Length(uint32_t field, size_t length) {
    Tag(field, kLengthDelimited);
    Varint(length);
  }
  void Text(uint32_t field, std::string_view text) {
    Length(field, text.size());
    head_ += text;
  }
  // As proto3 writes a field without presence: not at all when it is empty.
  void OptionalText(uint32_t field, std::string_view text) {
    if (!text.empty()) Text(field, text);
  }
  // Fields that were written elsewhere.
  void Append(std::string_view fields) { head_ += fields; }
  void Fixed64(uint32_t field, uint64_t value) {
    Tag(field, kFixed64);
    head_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void Bytes(uint32_t field, const Buffer& bytes) {
    Length(field, bytes.size());
    if (bytes.size() < kReferencedTensorBytes) {
      head_ += bytes.text();
    } else {
      references_.push_back(Reference{head_.size(), bytes});
      referenced_bytes_ += bytes.size();
    }
  }

  size_t size() const { return head_.size() - start_ + referenced_bytes_; }
  // What was written, when no bytes were referenced.
  std::string_view text() const { return std::string_view(head_).substr(start_); }

  // Makes what was written so far the value of a length-delimited field, with `before` in front of it. Called
  // at most once.
  void Wrap(std::string_view before, uint32_t field) {
    std::string prefix(before);
    prefix += static_cast<char>(field << 3 | kLengthDelimited);
    uint64_t length = size();
    for (; length >= 0x80; length >>= 7) prefix += static_cast<char>(length | 0x80);
    prefix += static_cast<char>(length);
    if (prefix.size() <= start_) {
      start_ -= prefix.size();
      head_.replace(start_, prefix.size(), prefix);
    } else {
      const size_t more = prefix.size() - start_;
      head_.replace(0, start_, prefix);
      start_ = 0;
      for (Reference& reference : references_) reference.position += more;
    }
  }

  EncodedMessage Build() const {
    const grpc::Slice head(head_.data() + start_, head_.size() - start_);
    if (references_.empty()) return EncodedMessage{grpc::ByteBuffer(&head, 1), size()};
    boost::container::small_vector<grpc::Slice, 8> slices;
    size_t from = 0;
    for (const Reference& reference : references_) {
      const size_t to = reference.position - start_;
      if (to > from) slices.push_back(head.sub(from, to));
      from = to;
      // gRPC may keep the slice after the call has ended; the share in the buffer goes with the slice.
      auto* share = new Buffer(reference.bytes);
      slices.emplace_back(
          const_cast<std::byte*>(share->data()), share->size(),
          [](void* held) { delete static_cast<Buffer*>(held); }, share);
    }
    if (head.size() > from) slices.push_back(head.sub(from, head.size()));
    return EncodedMessage{grpc::ByteBuffer(slices.data(), slices.size()), size()};
  }

 private:
  // Before the message, for Wrap() without moving anything.
  static constexpr size_t kPrefixRoom = 16;

  struct Reference {
    size_t position;  // in head_, where the bytes belong
    Buffer bytes;
  };

  std::string head_;
  size_t start_ = kPrefixRoom;
  boost::container::small_vector<Reference, 4> references_;
  size_t referenced_bytes_ = 0;
};

// One entry of map<string, InferParameter>.
void WriteParameter(MessageBuilder& out, std::string_view key, const ParameterValue& value) {
  const auto entry = [&](size_t value_size) {
    out.Length(kParameters, TextFieldSize(key) + 1 + VarintSize(value_size) + value_size);
    out.Text(1, key);
    out.Length(2, value_size);
  };
  if (const auto* flag = std::get_if<bool>(&value)) {
    entry(2);
    out.Tag(1, kVarint);
    out.Varint(*flag ? 1 : 0);
  } else if (const auto* number = std::get_if<int64_t>(&value)) {
    entry(1 + VarintSize(static_cast<uint64_t>(*number)));
    out.Tag(2, kVarint);
    out.Varint(static_cast<uint64_t>(*number));
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    entry(TextFieldSize(*text));
    out.Text(3, *text);
  } else if (const auto* real = std::get_if<double>(&value)) {
    entry(9);
    out.Fixed64(4, std::bit_cast<uint64_t>(*real));
  } else if (const auto* unsigned_number = std::get_if<uint64_t>(&value)) {
    entry(1 + VarintSize(*unsigned_number));
    out.Tag(5, kVarint);
    out.Varint(*unsigned_number);
  }
}

void WriteHead(MessageBuilder& out, std::string_view id, const InferenceResponse& response) {
  if (!response.model_name.empty()) {
    out.Text(kModelName, response.model_name);
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof(digits), response.model_version).ptr;
    out.Text(kModelVersion, {digits, static_cast<size_t>(end - digits)});
  }
  out.OptionalText(kId, id);
}

// The parameters that tell where an output is.
std::string RegionFields(const RegionPart& part) {
  MessageBuilder out;
  WriteParameter(out, "shared_memory_region", ParameterValue(part.region->info().name));
  WriteParameter(out, "shared_memory_byte_size", ParameterValue(static_cast<int64_t>(part.byte_size)));
  if (part.offset != 0) {
    WriteParameter(out, "shared_memory_offset", ParameterValue(static_cast<int64_t>(part.offset)));
  }
  return std::string(out.text());
}

void WriteOutput(MessageBuilder& out, const Tensor& tensor, std::span<const SharedOutput> shared) {
  std::string parameters;
  for (const SharedOutput& output : shared) {
    if (output.name == tensor.name) parameters = RegionFields(output.part);
  }
  size_t shape_size = 0;
  for (int64_t dimension : tensor.shape) shape_size += VarintSize(static_cast<uint64_t>(dimension));
  const std::string_view datatype = WireName(tensor.type);
  const size_t packed_size = tensor.shape.empty() ? 0 : 1 + VarintSize(shape_size) + shape_size;
  out.Length(kOutputs,
             TextFieldSize(tensor.name) + TextFieldSize(datatype) + packed_size + parameters.size());
  out.Text(kOutputName, tensor.name);
  out.Text(kOutputDatatype, datatype);
  if (!tensor.shape.empty()) {
    out.Length(kOutputShape, shape_size);
    for (int64_t dimension : tensor.shape) out.Varint(static_cast<uint64_t>(dimension));
  }
  out.Append(parameters);
}

void WriteResponse(MessageBuilder& out, std::string_view id, const InferenceResponse& response,
                   std::optional<bool> final, std::span<const SharedOutput> shared) {
  WriteHead(out, id, response);
  for (const auto& [key, value] : response.parameters) WriteParameter(out, key, value);
  if (final) WriteParameter(out, kFinalResponse, ParameterValue(*final));
  for (const Tensor& tensor : response.outputs) WriteOutput(out, tensor, shared);
  for (const Tensor& tensor : response.outputs) out.Bytes(kRawOutputContents, tensor.data);
}

}  // namespace

EncodedMessage EncodeUnaryResponse(std::string_view id, const InferenceResponse& response,
                                   std::span<const SharedOutput> shared) {
  MessageBuilder out;
  WriteResponse(out, id, response, std::nullopt, shared);
  return out.Build();
}

EncodedMessage EncodeStreamResponse(std::string_view id, const InferenceResponse& response, bool final,
                                    std::span<const SharedOutput> shared) {
  MessageBuilder out;
  WriteResponse(out, id, response, final, shared);
  out.Wrap({}, kInferResponse);
  return out.Build();
}

EncodedMessage EncodeStreamError(std::string_view id, std::string_view message,
                                 const InferenceResponse* response, bool final) {
  MessageBuilder out;
  if (response != nullptr) {
    WriteHead(out, id, *response);
    WriteParameter(out, kFinalResponse, ParameterValue(final));
  } else {
    out.OptionalText(kId, id);
  }
  MessageBuilder error;
  error.Text(kErrorMessage, message);
  out.Wrap(error.text(), kInferResponse);
  return out.Build();
}

}  // namespace braid
