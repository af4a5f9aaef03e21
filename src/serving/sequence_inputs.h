// Names of sequences in clients' requests to stateful models. A client can name its sequence in three ways.
// - By two inputs that are not in the metadata: `sequence_id` (UINT64 [1]) and `sequence_control_input`
//   (UINT32 [1]; 0 none, 1 start, 2 end).
// - By KServe's parameters `sequence_id`, `sequence_start` and `sequence_end`.
// - By a header, which proxies can use for routing.
//
// All of them set fields of InferenceRequest. Some protocols know more about an input than its tensor shows,
// such as the message field of its value. They read the two inputs with NameSequence(), before all other
// checks. The servable reads inputs that are still in `inputs` with TakeSequenceInputs().
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/status.h"
#include "serving/request.h"
#include "tensor/shape.h"

namespace braid {

inline constexpr std::string_view kSequenceIdInput = "sequence_id";
inline constexpr std::string_view kSequenceControlInput = "sequence_control_input";
// An HTTP header, and metadata of gRPC.
inline constexpr std::string_view kSequenceIdHeader = "braid-sequence-id";

// One of the two inputs, as the protocol received it.
struct SequenceInput {
  bool has_shape = true;  // false: the message has no shape, or a shape without dimensions
  Shape shape;
  // The value, if there is exactly one and it is in the right field.
  std::optional<uint64_t> value;
};

// Checks the inputs that are present and sets correlation_id, sequence_start, sequence_end and
// sequence_inputs of `request`. Parameters may have set these fields already. Errors, in this order, as
// Fault: kSpecialInputNoTensorShape, kInvalidNoOfShapeDimensions, kInvalidShape, kSequenceIdBadType; the same
// for the control with kSequenceControlInputBadType; kInvalidSequenceControlInput. Then INVALID_ARGUMENT if
// inputs and parameters disagree or a text names the sequence. Last kSequenceIdNotProvided if the request
// neither starts nor names a sequence.
Status NameSequence(const std::optional<SequenceInput>& id, const std::optional<SequenceInput>& control,
                    InferenceRequest& request);

// The same for a request that may have a header too (empty: none). NameSequenceByHeader() reads the header
// after the inputs, so that a fault of an input is reported first, and before the check that the request
// names a sequence.
Status NameSequence(const std::optional<SequenceInput>& id, const std::optional<SequenceInput>& control,
                    std::string_view header, bool text_ids, InferenceRequest& request);

// Removes the two inputs from request.inputs, if present, and does the work of NameSequence(). A tensor of
// another type is kSequenceIdBadType or kSequenceControlInputBadType.
Status TakeSequenceInputs(InferenceRequest& request);

// Sets correlation_id from a header, if it is not set yet: a decimal number, otherwise a text. With
// `text_ids` the model's ids are texts. An empty header changes nothing. Errors: INVALID_ARGUMENT if the
// request names another sequence.
Status NameSequenceByHeader(std::string_view header, bool text_ids, InferenceRequest& request);

}  // namespace braid
