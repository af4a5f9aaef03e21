#include "protocols/kserve/sequence_naming.h"

#include <algorithm>
#include <string>

#include "model_config.pb.h"
#include "serving/ovms_status.h"
#include "serving/sequence_inputs.h"

namespace braid {
namespace {

// Whether the ids of a model's sequences are texts: "12" is then no number.
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

// The parameters of a graph are its own and stay where they are. Those that name a sequence to a model do so
// for what the graph asks, if they are of the right kind.
void ReadGraphParameters(InferenceRequest& request) {
  for (const auto& [name, value] : request.parameters) {
    const auto* flag = std::get_if<bool>(&value);
    if (name == "sequence_start" && flag != nullptr) request.sequence_start = *flag;
    if (name == "sequence_end" && flag != nullptr) request.sequence_end = *flag;
    if (name != "sequence_id") continue;
    if (const auto* number = std::get_if<int64_t>(&value)) {
      request.correlation_id = static_cast<uint64_t>(*number);
    } else if (const auto* unsigned_number = std::get_if<uint64_t>(&value)) {
      request.correlation_id = *unsigned_number;
    } else if (const auto* text = std::get_if<std::string>(&value)) {
      request.correlation_id = *text;
    }
  }
}

}  // namespace

bool HasSequences(const ServableInfo& info) {
  return info.kind != ServableKind::kModel || info.stateful.has_value() ||
         (info.config != nullptr && info.config->has_sequence_batching());
}

Status NameSequenceOf(const ServableInfo& info, std::string_view header, InferenceRequest& request) {
  if (info.stateful) return NameSequence(std::nullopt, std::nullopt, header, false, request);
  if (info.kind == ServableKind::kGraph) ReadGraphParameters(request);
  if (header.empty()) return OkStatus();
  return NameSequenceByHeader(header, HasTextIds(info), request);
}

void AskForSequenceId(const ServableInfo& info, InferenceRequest& request) {
  std::vector<std::string>& outputs = request.requested_outputs;
  if (!info.stateful || outputs.empty()) return;
  if (info.kind != ServableKind::kModel) {
    std::erase(outputs, kSequenceIdInput);
  } else if (std::find(outputs.begin(), outputs.end(), kSequenceIdInput) == outputs.end()) {
    outputs.emplace_back(kSequenceIdInput);
  }
}

Status RepeatedSequenceHeader() {
  return InvalidArgumentError("the header " + std::string(kSequenceIdHeader) +
                              " is there more than once, with different values");
}

Status RepeatedSequenceInput(std::string_view name) {
  return OvmsError(OvmsCode::kInvalidUnexpectedInput, std::string(name).append(" is given more than once"));
}

}  // namespace braid
