// How clients of stateful models name sequences: by two inputs that are in no metadata, `sequence_id` (UINT64
// [1]) and `sequence_control_input` (UINT32 [1]; 0 none, 1 start, 2 end), by the parameters of KServe
// (`sequence_id`, `sequence_start`, `sequence_end`), and by a header that proxies can route by.
//
// All of them end up in the fields of InferenceRequest. Protocols that know more of an input than a tensor
// does (in which field of the message its value is) read the two themselves, before anything else of the
// request is checked, by NameSequence(). What is left in `inputs` is read by the servable, by
// TakeSequenceInputs().
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
// The header of HTTP and the metadata of gRPC.
inline constexpr std::string_view kSequenceIdHeader = "braid-sequence-id";

// One of the two inputs, as a protocol has found it.
struct SequenceInput {
  bool has_shape = true;  // false: the message says nothing of a shape, or gives no dimension
  Shape shape;
  // The value, if there is exactly one and it is where it ought to be.
  std::optional<uint64_t> value;
};

// Checks the inputs that are there and sets correlation_id, sequence_start, sequence_end and sequence_inputs
// of `request`, whose fields may be set by parameters already. Errors, the first that holds, as Fault:
// kSpecialInputNoTensorShape, kInvalidNoOfShapeDimensions, kInvalidShape, kSequenceIdBadType, then the same
// for the control with kSequenceControlInputBadType; kInvalidSequenceControlInput; INVALID_ARGUMENT when
// inputs and parameters disagree, and when a text names the sequence; kSequenceIdNotProvided when the request
// does not start a sequence and names none.
Status NameSequence(const std::optional<SequenceInput>& id, const std::optional<SequenceInput>& control,
                    InferenceRequest& request);

// The same for a request that has a header too (empty: none). What the header says is looked at by
// NameSequenceByHeader() after the inputs, so that a fault of an input comes first, and before it is decided
// whether the request names a sequence at all.
Status NameSequence(const std::optional<SequenceInput>& id, const std::optional<SequenceInput>& control,
                    std::string_view header, bool text_ids, InferenceRequest& request);

// Takes the two out of request.inputs, if they are there, and does what NameSequence() does. A tensor of
// another type is kSequenceIdBadType or kSequenceControlInputBadType.
Status TakeSequenceInputs(InferenceRequest& request);

// The sequence that a header names: a decimal number, or else a text. `text_ids`: the model's ids are texts.
// Sets correlation_id where nothing has, and leaves it alone where the header is empty. Errors:
// INVALID_ARGUMENT when the request itself names another one.
Status NameSequenceByHeader(std::string_view header, bool text_ids, InferenceRequest& request);

}  // namespace braid
