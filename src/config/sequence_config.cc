#include "config/sequence_config.h"

#include <set>
#include <string>

#include "config/folder.h"

namespace braid {
namespace {

using inference::ModelConfig;
using Batching = inference::ModelSequenceBatching;
using Control = Batching::Control;

// The server keeps that many sequences and more in mind for each instance.
constexpr int32_t kMaxCandidates = 1 << 20;

Status Invalid(std::string text) { return InvalidArgumentError(std::move(text)); }

Status CheckControl(const Control& control, const std::string& who) {
  if (!Control::Kind_IsValid(control.kind())) return Invalid(who + " has an unknown 'kind'");
  const int lists = (control.int32_false_true().empty() ? 0 : 1) +
                    (control.fp32_false_true().empty() ? 0 : 1) + (control.bool_false_true().empty() ? 0 : 1);
  if (control.kind() == Control::CONTROL_SEQUENCE_CORRID) {
    if (lists > 0) {
      return Invalid(who + " must not specify 'int32_false_true', 'fp32_false_true' or 'bool_false_true': " +
                     "it carries the sequence id");
    }
    switch (control.data_type()) {
      case inference::TYPE_UINT64:
      case inference::TYPE_INT64:
      case inference::TYPE_UINT32:
      case inference::TYPE_INT32:
      case inference::TYPE_STRING:
        return OkStatus();
      default:
        return Invalid(who +
                       " must specify 'data_type' as TYPE_UINT64, TYPE_INT64, TYPE_UINT32, TYPE_INT32 or "
                       "TYPE_STRING");
    }
  }
  if (lists != 1) {
    return Invalid(who + " must specify one of 'int32_false_true', 'fp32_false_true' or 'bool_false_true'");
  }
  const int values =
      control.int32_false_true_size() + control.fp32_false_true_size() + control.bool_false_true_size();
  if (values != 2)
    return Invalid(who + " must specify exactly 2 values, the one for false and the one for true");
  if (control.data_type() != inference::TYPE_INVALID) {
    return Invalid(who + " must not specify 'data_type': that is the type of its values");
  }
  return OkStatus();
}

Status CheckControls(const ModelConfig& config) {
  std::set<std::string_view> names;
  std::set<int> kinds;
  for (const auto& input : config.sequence_batching().control_input()) {
    if (input.name().empty()) {
      return Invalid("sequence batching control input must specify 'name' for " + config.name());
    }
    const std::string who = "sequence batching control input '" + input.name() + "' of " + config.name();
    if (!names.insert(input.name()).second) return Invalid(who + " is specified more than once");
    if (input.control_size() != 1) return Invalid(who + " must specify exactly one 'control'");
    const Control& control = input.control(0);
    BRAID_RETURN_IF_ERROR(CheckControl(control, who));
    if (!kinds.insert(control.kind()).second) {
      return Invalid(who + ": " + Control::Kind_Name(control.kind()) + " is specified more than once");
    }
  }
  return OkStatus();
}

Status CheckStrategy(const ModelConfig& config) {
  const Batching& batching = config.sequence_batching();
  const std::string& name = config.name();
  const float utilization = batching.direct().minimum_slot_utilization();
  if (!(utilization >= 0.0f && utilization <= 1.0f)) {
    return Invalid("sequence batching minimum slot utilization must be in range [0.0, 1.0] for " + name);
  }
  const int32_t candidates = batching.oldest().max_candidate_sequences();
  if (candidates < 0 || candidates > kMaxCandidates) {
    return Invalid("sequence batching max candidate sequences must be in range [0, " +
                   std::to_string(kMaxCandidates) + "] for " + name);
  }
  for (int32_t size : batching.oldest().preferred_batch_size()) {
    if (size <= 0) return Invalid("sequence batching preferred size must be positive for " + name);
    if (size > config.max_batch_size()) {
      return Invalid("sequence batching preferred size must be <= max batch size for " + name);
    }
  }
  return OkStatus();
}

Status CheckInitialState(const Batching::State& state, const std::string& who) {
  if (state.initial_state_size() > 1) return Invalid(who + " must not specify more than one 'initial_state'");
  if (state.initial_state().empty()) return OkStatus();
  const auto& initial = state.initial_state(0);
  const std::string what = who + ": 'initial_state'";
  if (initial.name().empty()) return Invalid(what + " must specify 'name'");
  if (initial.data_type() != state.data_type())
    return Invalid(what + " must have the 'data_type' of the state");
  bool fits = initial.dims_size() == state.dims_size();
  for (int i = 0; fits && i < initial.dims_size(); ++i) {
    if (initial.dims(i) < 1) return Invalid(what + " must have dims that are integers >= 1");
    fits = state.dims(i) == -1 || state.dims(i) == initial.dims(i);
  }
  if (!fits) return Invalid(what + " must have dims that are those of the state");
  switch (initial.state_data_case()) {
    case Batching::InitialState::kZeroData:
      return OkStatus();
    case Batching::InitialState::kDataFile:
      if (IsPlainRelativePath(initial.data_file())) return OkStatus();
      return Invalid(what + ": 'data_file' must name a file in the folder initial_state, without '..'");
    default:
      return Invalid(what + " must specify 'zero_data' or 'data_file'");
  }
}

Status CheckStates(const ModelConfig& config) {
  std::set<std::string_view> inputs;
  std::set<std::string_view> outputs;
  for (const auto& state : config.sequence_batching().state()) {
    if (state.input_name().empty() || state.output_name().empty()) {
      return Invalid("sequence batching state must specify 'input_name' and 'output_name' for " +
                     config.name());
    }
    const std::string who = "sequence batching state '" + state.input_name() + "' of " + config.name();
    if (!inputs.insert(state.input_name()).second) return Invalid(who + " is specified more than once");
    if (!outputs.insert(state.output_name()).second) {
      return Invalid(who + ": output_name '" + state.output_name() + "' is specified more than once");
    }
    if (state.data_type() == inference::TYPE_INVALID || !inference::DataType_IsValid(state.data_type())) {
      return Invalid(who + " must specify 'data_type'");
    }
    if (state.dims().empty()) return Invalid(who + " must specify 'dims'");
    for (int64_t dim : state.dims()) {
      if (dim < 1 && dim != -1) {
        return Invalid(who + " dimension must be integer >= 1, or -1 to indicate a variable-size dimension");
      }
    }
    BRAID_RETURN_IF_ERROR(CheckInitialState(state, who));
  }
  return OkStatus();
}

}  // namespace

Status CheckSequenceBatching(const ModelConfig& config) {
  BRAID_RETURN_IF_ERROR(CheckStrategy(config));
  BRAID_RETURN_IF_ERROR(CheckControls(config));
  return CheckStates(config);
}

Status CheckSequenceTensors(const ModelConfig& config) {
  const Batching& batching = config.sequence_batching();
  std::set<std::string_view> names;
  for (const auto& input : config.input()) names.insert(input.name());
  for (const auto& input : batching.control_input()) {
    if (names.insert(input.name()).second) continue;
    return Invalid("sequence batching control input '" + input.name() + "' of " + config.name() +
                   " must not be a model input as well: the server adds it");
  }
  for (const auto& state : batching.state()) {
    const std::string who = "sequence batching state '" + state.input_name() + "' of " + config.name();
    if (!names.insert(state.input_name()).second) {
      return Invalid(who + " must not be a model input or control input as well: the server adds it");
    }
    for (const auto& output : config.output()) {
      if (output.name() == state.output_name() && output.data_type() != state.data_type()) {
        return Invalid(who + " must have the 'data_type' of output '" + output.name() + "'");
      }
    }
  }
  return OkStatus();
}

}  // namespace braid
