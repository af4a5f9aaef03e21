// Reads a ModelInferRequest from the slices of a gRPC message, without protobuf. It records only the places
// of tensor bytes, so that they are copied once, into the model's memory.
//
//   ParsedRequest parsed;
//   BRAID_RETURN_IF_ERROR(ParseInferRequest(segments, parsed));
//   CopyRange(segments, parsed.raw[0], destination);
#pragma once

#include <array>
#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"
#include "protocols/grpc/protobuf_reader.h"
#include "tensor/data_type.h"
#include "tensor/shape.h"

namespace braid {

// Limits of one request, well above the needs of models; a larger request is INVALID_ARGUMENT.
struct InferRequestLimits {
  static constexpr size_t kInputs = 4096;
  static constexpr size_t kOutputs = 4096;
  static constexpr size_t kParameters = 1024;  // of the request, and of each tensor
  // All entries of one message together; bounds the search for repeated keys.
  static constexpr size_t kAllParameters = 16384;
  static constexpr size_t kDimensions = 64;  // of each tensor
  // `contents` messages of one input, which protobuf merges; clients send one.
  static constexpr size_t kContents = 64;
};

// An InferParameter; std::monostate when none of its choices is set.
using WireParameter = std::variant<std::monostate, bool, int64_t, std::string, double, uint64_t>;
// Each key once, with its last value, in the order of first occurrence.
using WireParameters = std::vector<std::pair<std::string, WireParameter>>;

const WireParameter* FindParameter(const WireParameters& parameters, std::string_view key);

// The fields of InferTensorContents.
enum class ContentsField : uint8_t { kBool = 1, kInt, kInt64, kUint, kUint64, kFp32, kFp64, kBytes };
inline constexpr int kContentsFieldCount = 8;
// Returns the field for values of this type; nullopt for types that are only sent raw.
std::optional<ContentsField> ContentsFieldFor(DataType type);

// Typed contents: their places, and the number of elements of each kind.
struct ParsedContents {
  // Contents in several parts count as one, in order.
  boost::container::small_vector<WireRange, 1> ranges;
  std::array<uint64_t, kContentsFieldCount> elements{};
  uint64_t bytes_size = 0;  // total of the elements of bytes_contents

  bool present() const { return !ranges.empty(); }
  uint64_t count(ContentsField field) const { return elements[static_cast<size_t>(field) - 1]; }
};

struct ParsedInput {
  std::string name;
  std::string datatype;
  Shape shape;
  WireParameters parameters;
  ParsedContents contents;
};

struct ParsedOutput {
  std::string name;
  WireParameters parameters;
};

struct ParsedRequest {
  std::string model_name;
  std::string model_version;
  std::string id;
  WireParameters parameters;
  std::vector<ParsedInput> inputs;
  std::vector<ParsedOutput> outputs;
  boost::container::small_vector<WireRange, 4> raw;

  void Clear();
};

// Parses a message into `request`, which is cleared first. Errors: INVALID_ARGUMENT if it is malformed or
// exceeds InferRequestLimits. After an error `request` holds the part read so far, so that the answer can
// carry its id.
Status ParseInferRequest(WireSegments segments, ParsedRequest& request);

// Returns the size of the elements of `field` in raw form, and writes them to `to`, which has that size.
// Integers are cut to `element_size`; bytes are prefixed with their length. REQUIRES: ParseInferRequest()
// made `contents` from the same segments.
size_t ContentsRawSize(const ParsedContents& contents, ContentsField field, size_t element_size);
void CopyContents(WireSegments segments, const ParsedContents& contents, ContentsField field,
                  size_t element_size, std::byte* to);

}  // namespace braid
