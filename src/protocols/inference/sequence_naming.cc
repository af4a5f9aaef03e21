#include "protocols/inference/sequence_naming.h"

#include <algorithm>
#include <string>

#include "model_config.pb.h"
#include "serving/faults.h"
#include "serving/sequence_inputs.h"

namespace braid {
namespace {

// Whether the ids of a model's sequences are texts. Then "12" is not a number.
bool HasTextIds(const ServableInfo& info) {
  if (info.config == nullptr) return false;
  const auto& inputs = info.config->sequence_batching().control_input();
  return std::any_of(inputs.begin(), inputs.end(), [](const auto& input) {
    return std::any_of(input.control().begin(), input.control().end(), [](const auto& control) {
      return control.kind() == inference::ModelSequenceBatching::Control::CONTROL_SEQUENCE_CORRID &&
             control.data_type() == inference::TYPE_STRING;
    });
  });
}

// A graph reads the parameters that name a sequence itself, so they stay parameters. They must agree with the
// header too.
Status NameSequenceOfGraph(std::string_view header, InferenceRequest& request) {
  InferenceRequest named;
  for (const auto& [name, value] : request.parameters) {
    if (name != kSequenceIdInput) continue;
    if (const auto* number = std::get_if<int64_t>(&value)) {
      named.correlation_id = static_cast<uint64_t>(*number);
    } else if (const auto* unsigned_number = std::get_if<uint64_t>(&value)) {
      named.correlation_id = *unsigned_number;
    } else if (const auto* text = std::get_if<std::string>(&value)) {
      named.correlation_id = *text;
    }
  }
  BRAID_RETURN_IF_ERROR(NameSequenceByHeader(header, false, named));
  request.correlation_id = std::move(named.correlation_id);
  return OkStatus();
}

}  // namespace

bool HasSequences(const ServableInfo& info) {
  return info.kind != ServableKind::kModel || info.stateful.has_value() ||
         (info.config != nullptr && info.config->has_sequence_batching());
}

Status NameSequenceOf(const ServableInfo& info, std::string_view header, InferenceRequest& request) {
  if (info.stateful) return NameSequence(std::nullopt, std::nullopt, header, false, request);
  if (header.empty()) return OkStatus();
  if (info.kind == ServableKind::kGraph) return NameSequenceOfGraph(header, request);
  return NameSequenceByHeader(header, HasTextIds(info), request);
}

void AskForSequenceId(const ServableInfo& info, InferenceRequest& request) {
  std::vector<std::string>& outputs = request.requested_outputs;
  if (!info.stateful || outputs.empty()) return;
  if (std::find(outputs.begin(), outputs.end(), kSequenceIdInput) == outputs.end()) {
    outputs.emplace_back(kSequenceIdInput);
  }
}

Status RepeatedSequenceInput(std::string_view name) {
  return FaultError(Fault::kInvalidUnexpectedInput, std::string(name).append(" is given more than once"));
}

}  // namespace braid
