#include "serving/sequence_inputs.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string>

#include "serving/faults.h"

namespace braid {
namespace {

constexpr uint64_t kStart = 1;
constexpr uint64_t kEnd = 2;

Status CheckForm(const SequenceInput& input, std::string_view name, Fault bad_type) {
  if (!input.has_shape) return FaultError(Fault::kSpecialInputNoTensorShape);
  const std::string wanted = std::string("Required shape for ").append(name).append(" is: (1)");
  if (input.shape.size() != 1) return FaultError(Fault::kInvalidNoOfShapeDimensions, wanted);
  if (input.shape[0] != 1) return FaultError(Fault::kInvalidShape, wanted);
  if (!input.value) return FaultError(bad_type);
  return OkStatus();
}

bool IsNone(const CorrelationId& id) {
  const auto* number = std::get_if<uint64_t>(&id);
  return number != nullptr ? *number == 0 : std::get<std::string>(id).empty();
}

std::string TextOf(const CorrelationId& id) {
  const auto* number = std::get_if<uint64_t>(&id);
  return number != nullptr ? std::to_string(*number) : std::get<std::string>(id);
}

// Returns `text` in quotes. Cuts a text that is too long for an error, between two UTF-8 characters.
std::string Quoted(std::string_view text) {
  constexpr size_t kMost = 128;
  size_t size = std::min(text.size(), kMost);
  while (size < text.size() && size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) --size;
  return std::string("'").append(text.substr(0, size)).append(size < text.size() ? "...'" : "'");
}

Status Disagreement(std::string_view one, std::string_view one_value, std::string_view other,
                    std::string_view other_value) {
  return InvalidArgumentError(std::string("the request names two sequences: ")
                                  .append(Quoted(one_value))
                                  .append(" by its ")
                                  .append(one)
                                  .append(" and ")
                                  .append(Quoted(other_value))
                                  .append(" by its ")
                                  .append(other));
}

// Removes the input and returns it; nullopt if absent.
std::optional<Tensor> TakeInput(std::string_view name, InferenceRequest& request) {
  const auto found = std::find_if(request.inputs.begin(), request.inputs.end(),
                                  [name](const Tensor& input) { return input.name == name; });
  if (found == request.inputs.end()) return std::nullopt;
  Tensor tensor = std::move(*found);
  request.inputs.erase(found);
  return tensor;
}

std::optional<SequenceInput> Read(const std::optional<Tensor>& tensor, DataType type) {
  if (!tensor) return std::nullopt;
  SequenceInput input;
  input.shape = tensor->shape;
  input.has_shape = !tensor->shape.empty();
  const size_t size = ElementSize(type);
  if (tensor->type == type && tensor->data.size() == size) {
    uint64_t value = 0;  // little-endian
    std::memcpy(&value, tensor->data.data(), size);
    input.value = value;
  }
  return input;
}

// Sets the request's fields from the two inputs.
Status TakeValues(const std::optional<SequenceInput>& id, const std::optional<SequenceInput>& control,
                  InferenceRequest& request) {
  if (id) BRAID_RETURN_IF_ERROR(CheckForm(*id, kSequenceIdInput, Fault::kSequenceIdBadType));
  if (control) {
    BRAID_RETURN_IF_ERROR(CheckForm(*control, kSequenceControlInput, Fault::kSequenceControlInputBadType));
    if (*control->value > kEnd) return FaultError(Fault::kInvalidSequenceControlInput);
  }
  request.sequence_inputs = static_cast<uint8_t>((id ? 1 : 0) + (control ? 1 : 0));
  if (id && *id->value != 0) {
    const CorrelationId named = *id->value;
    if (!IsNone(request.correlation_id) && request.correlation_id != named) {
      return Disagreement("inputs", TextOf(named), "parameters", TextOf(request.correlation_id));
    }
    request.correlation_id = named;
  }
  if (control && *control->value != 0) {
    const bool start = *control->value == kStart;
    if (request.sequence_start || request.sequence_end) {
      if (request.sequence_start != start || request.sequence_end == start) {
        return InvalidArgumentError(
            "sequence_control_input contradicts the parameters sequence_start and sequence_end");
      }
    }
    request.sequence_start = start;
    request.sequence_end = !start;
  }
  return OkStatus();
}

Status CheckName(InferenceRequest& request) {
  if (IsNone(request.correlation_id)) {
    request.correlation_id = uint64_t{0};
    return request.sequence_start ? OkStatus() : FaultError(Fault::kSequenceIdNotProvided);
  }
  if (const auto* text = std::get_if<std::string>(&request.correlation_id)) {
    return InvalidArgumentError("a sequence of a stateful model needs a numeric id, not " + Quoted(*text));
  }
  return OkStatus();
}

}  // namespace

Status NameSequence(const std::optional<SequenceInput>& id, const std::optional<SequenceInput>& control,
                    InferenceRequest& request) {
  return NameSequence(id, control, {}, false, request);
}

Status NameSequence(const std::optional<SequenceInput>& id, const std::optional<SequenceInput>& control,
                    std::string_view header, bool text_ids, InferenceRequest& request) {
  BRAID_RETURN_IF_ERROR(TakeValues(id, control, request));
  BRAID_RETURN_IF_ERROR(NameSequenceByHeader(header, text_ids, request));
  return CheckName(request);
}

Status TakeSequenceInputs(InferenceRequest& request) {
  const std::optional<Tensor> id = TakeInput(kSequenceIdInput, request);
  const std::optional<Tensor> control = TakeInput(kSequenceControlInput, request);
  const uint8_t read_before = request.sequence_inputs;
  BRAID_RETURN_IF_ERROR(NameSequence(Read(id, DataType::kUint64), Read(control, DataType::kUint32), request));
  request.sequence_inputs = static_cast<uint8_t>(request.sequence_inputs + read_before);
  return OkStatus();
}

Status NameSequenceByHeader(std::string_view header, bool text_ids, InferenceRequest& request) {
  if (header.empty()) return OkStatus();
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(header.data(), header.data() + header.size(), number);
  const bool is_number = error == std::errc() && end == header.data() + header.size();
  if (!IsNone(request.correlation_id)) {
    const std::string own = TextOf(request.correlation_id);
    const bool same_number = is_number && request.correlation_id == CorrelationId(number);
    if (same_number || own == header) return OkStatus();
    return Disagreement(std::string("header ").append(kSequenceIdHeader), header, "body", own);
  }
  if (is_number && !text_ids) {
    request.correlation_id = number;
  } else {
    request.correlation_id = std::string(header);
  }
  return OkStatus();
}

}  // namespace braid
