// Reads a PredictRequest from the slices of a gRPC message, without protobuf: tensor bytes are not touched,
// only their places are remembered, so that they can be copied once, to where the servable wants them.
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

// What one request may have; more is INVALID_ARGUMENT. Far above what models have, far below what hurts.
struct PredictRequestLimits {
  static constexpr size_t kInputs = 4096;
  static constexpr size_t kOutputs = 4096;
  static constexpr size_t kDimensions = 64;  // of each tensor
  // TensorProto messages of one input, which protobuf merges; clients send one.
  static constexpr size_t kParts = 64;
};

// The model that a request names.
struct ParsedModelSpec {
  bool present = false;
  std::string name;
  int64_t version = 0;  // 0: the default one
};

// A TensorProto: what it says of the tensor, and where its elements are.
struct ParsedTensor {
  static constexpr size_t kFields = 18;

  std::string name;
  uint32_t dtype = 0;
  Shape shape;
  bool unknown_rank = false;
  WireRange content;  // of tensor_content; empty when there is none
  // The message itself, in order; more than one part is protobuf's way to merge messages.
  boost::container::small_vector<WireRange, 1> parts;
  // How many elements stand in each of the *_val fields, by its number.
  std::array<uint64_t, kFields> values{};
  // Of all elements of string_val together, and whether one of them is empty.
  uint64_t string_bytes = 0;
  bool has_empty_string = false;
};

struct ParsedPredictRequest {
  ParsedModelSpec model;
  std::vector<ParsedTensor> inputs;
  std::vector<std::string> output_filter;
};

// Errors: INVALID_ARGUMENT when the message is malformed or beyond PredictRequestLimits.
Status ParsePredictRequest(WireSegments segments, ParsedPredictRequest& request);

// The elements that stand in the value field of `type` in raw form, one after the other: integers and halves
// cut to the type's size, strings with their length in front. `to` has room for RawValuesSize().
// REQUIRES: `tensor` came out of ParsePredictRequest() with the same segments; `type` is not kInvalid.
uint64_t RawValuesSize(const ParsedTensor& tensor, DataType type);
void CopyValues(WireSegments segments, const ParsedTensor& tensor, DataType type, std::byte* to);

}  // namespace braid
