// Reads a PredictRequest from the slices of a gRPC message, without protobuf. It records only the places of
// tensor bytes, so that they are copied once, into the servable's memory.
#pragma once

#include <array>
#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "protocols/grpc/protobuf_reader.h"
#include "tensor/data_type.h"
#include "tensor/shape.h"

namespace braid {

// Limits of one request, well above the needs of models; a larger request is INVALID_ARGUMENT.
struct PredictRequestLimits {
  static constexpr size_t kInputs = 4096;
  static constexpr size_t kOutputs = 4096;
  static constexpr size_t kDimensions = 64;  // of each tensor
  // TensorProto messages of one input, which protobuf merges; clients send one.
  static constexpr size_t kParts = 64;
};

// The model named in a request.
struct ParsedModelSpec {
  bool present = false;
  std::string name;
  int64_t version = 0;  // 0: the default one
};

// A TensorProto: its description of the tensor, and the places of the elements.
struct ParsedTensor {
  static constexpr size_t kFields = 18;

  std::string name;
  uint32_t dtype = 0;
  Shape shape;
  bool unknown_rank = false;
  WireRange content;  // of tensor_content; empty if absent
  // The ranges of the message, in order; several ranges are merged as in protobuf.
  boost::container::small_vector<WireRange, 1> parts;
  // The number of elements in each *_val field, by field number.
  std::array<uint64_t, kFields> values{};
  // Total size of the elements of string_val, and whether one is empty.
  uint64_t string_bytes = 0;
  bool has_empty_string = false;
};

struct ParsedPredictRequest {
  ParsedModelSpec model;
  std::vector<ParsedTensor> inputs;
  std::vector<std::string> output_filter;
};

// Parses a message. Errors: INVALID_ARGUMENT if it is malformed or exceeds PredictRequestLimits.
Status ParsePredictRequest(WireSegments segments, ParsedPredictRequest& request);

// Returns the size of the elements in the value field of `type` in raw form, and writes them to `to`, which
// has that size. Integers and halves are cut to the type's size; strings are prefixed with their length.
// REQUIRES: ParsePredictRequest() made `tensor` from the same segments; `type` is not kInvalid.
uint64_t RawValuesSize(const ParsedTensor& tensor, DataType type);
void CopyValues(WireSegments segments, const ParsedTensor& tensor, DataType type, std::byte* to);

}  // namespace braid
