#include "config/sequence_config.h"

#include <set>
#include <string>

#include "config/folder.h"

namespace braid {
namespace {

using inference::ModelConfig;
using Batching = inference::ModelSequenceBatching;
using Control = Batching::Control;

// The server keeps state for at least this many sequences per instance.
constexpr int32_t kMaxCandidates = 1 << 20;

FieldFault CheckControl(const Control& control, const std::string& who, const std::string& field) {
  if (!Control::Kind_IsValid(control.kind()))
    return InvalidField(who + " has an unknown 'kind'", field + ".kind");
  const int lists = (control.int32_false_true().empty() ? 0 : 1) +
                    (control.fp32_false_true().empty() ? 0 : 1) + (control.bool_false_true().empty() ? 0 : 1);
  if (control.kind() == Control::CONTROL_SEQUENCE_CORRID) {
    if (lists > 0) {
      return InvalidField(
          who + " must not specify 'int32_false_true', 'fp32_false_true' or 'bool_false_true': " +
              "it carries the sequence id",
          field);
    }
    switch (control.data_type()) {
      case inference::TYPE_UINT64:
      case inference::TYPE_INT64:
      case inference::TYPE_UINT32:
      case inference::TYPE_INT32:
      case inference::TYPE_STRING:
        return {};
      default:
        return InvalidField(
            who +
                " must specify 'data_type' as TYPE_UINT64, TYPE_INT64, TYPE_UINT32, TYPE_INT32 or "
                "TYPE_STRING",
            field + ".data_type");
    }
  }
  if (lists != 1) {
    return InvalidField(
        who + " must specify one of 'int32_false_true', 'fp32_false_true' or 'bool_false_true'", field);
  }
  const int values =
      control.int32_false_true_size() + control.fp32_false_true_size() + control.bool_false_true_size();
  if (values != 2) {
    const std::string list = control.int32_false_true_size() > 0  ? ".int32_false_true"
                             : control.fp32_false_true_size() > 0 ? ".fp32_false_true"
                                                                  : ".bool_false_true";
    return InvalidField(who + " must specify exactly 2 values, for false and for true", field + list);
  }
  if (control.data_type() != inference::TYPE_INVALID) {
    return InvalidField(who + " must not specify 'data_type': that is the type of its values",
                        field + ".data_type");
  }
  return {};
}

FieldFault CheckControls(const ModelConfig& config) {
  std::set<std::string_view> names;
  std::set<int> kinds;
  for (int i = 0; i < config.sequence_batching().control_input_size(); ++i) {
    const auto& input = config.sequence_batching().control_input(i);
    const std::string field = FieldAt("sequence_batching.control_input", i);
    if (input.name().empty()) {
      return InvalidField("sequence batching control input must specify 'name' for " + config.name(),
                          field + ".name");
    }
    const std::string who = "sequence batching control input '" + input.name() + "' of " + config.name();
    if (!names.insert(input.name()).second)
      return InvalidField(who + " is specified more than once", field + ".name");
    if (input.control_size() != 1)
      return InvalidField(who + " must specify exactly one 'control'", field + ".control");
    const Control& control = input.control(0);
    const std::string inside = FieldAt(field + ".control", 0);
    BRAID_RETURN_IF_FAULT(CheckControl(control, who, inside));
    if (!kinds.insert(control.kind()).second) {
      return InvalidField(who + ": " + Control::Kind_Name(control.kind()) + " is specified more than once",
                          inside + ".kind");
    }
  }
  return {};
}

FieldFault CheckStrategy(const ModelConfig& config) {
  const Batching& batching = config.sequence_batching();
  const std::string& name = config.name();
  const float utilization = batching.direct().minimum_slot_utilization();
  if (!(utilization >= 0.0f && utilization <= 1.0f)) {
    return InvalidField("sequence batching minimum slot utilization must be in range [0.0, 1.0] for " + name,
                        "sequence_batching.direct.minimum_slot_utilization");
  }
  const int32_t candidates = batching.oldest().max_candidate_sequences();
  if (candidates < 0 || candidates > kMaxCandidates) {
    return InvalidField("sequence batching max candidate sequences must be in range [0, " +
                            std::to_string(kMaxCandidates) + "] for " + name,
                        "sequence_batching.oldest.max_candidate_sequences");
  }
  for (int i = 0; i < batching.oldest().preferred_batch_size_size(); ++i) {
    const int32_t size = batching.oldest().preferred_batch_size(i);
    const std::string field = FieldAt("sequence_batching.oldest.preferred_batch_size", i);
    if (size <= 0)
      return InvalidField("sequence batching preferred size must be positive for " + name, field);
    if (size > config.max_batch_size()) {
      return InvalidField("sequence batching preferred size must be <= max batch size for " + name, field);
    }
  }
  return {};
}

FieldFault CheckInitialState(const Batching::State& state, const std::string& who, const std::string& of) {
  if (state.initial_state_size() > 1) {
    return InvalidField(who + " must not specify more than one 'initial_state'",
                        FieldAt(of + ".initial_state", 1));
  }
  if (state.initial_state().empty()) return {};
  const std::string field = FieldAt(of + ".initial_state", 0);
  const auto& initial = state.initial_state(0);
  const std::string what = who + ": 'initial_state'";
  if (initial.name().empty()) return InvalidField(what + " must specify 'name'", field + ".name");
  if (initial.data_type() != state.data_type())
    return InvalidField(what + " must have the 'data_type' of the state", field + ".data_type");
  bool fits = initial.dims_size() == state.dims_size();
  for (int i = 0; fits && i < initial.dims_size(); ++i) {
    if (initial.dims(i) < 1)
      return InvalidField(what + " must have dims that are integers >= 1", FieldAt(field + ".dims", i));
    fits = state.dims(i) == -1 || state.dims(i) == initial.dims(i);
  }
  if (!fits) return InvalidField(what + " must have the dims of the state", field + ".dims");
  switch (initial.state_data_case()) {
    case Batching::InitialState::kZeroData:
      return {};
    case Batching::InitialState::kDataFile:
      if (IsPlainRelativePath(initial.data_file())) return {};
      return InvalidField(what + ": 'data_file' must name a file in the folder initial_state, without '..'",
                          field + ".data_file");
    default:
      return InvalidField(what + " must specify 'zero_data' or 'data_file'", field);
  }
}

FieldFault CheckStates(const ModelConfig& config) {
  std::set<std::string_view> inputs;
  std::set<std::string_view> outputs;
  for (int i = 0; i < config.sequence_batching().state_size(); ++i) {
    const auto& state = config.sequence_batching().state(i);
    const std::string field = FieldAt("sequence_batching.state", i);
    if (state.input_name().empty() || state.output_name().empty()) {
      return InvalidField(
          "sequence batching state must specify 'input_name' and 'output_name' for " + config.name(),
          field + (state.input_name().empty() ? ".input_name" : ".output_name"));
    }
    const std::string who = "sequence batching state '" + state.input_name() + "' of " + config.name();
    if (!inputs.insert(state.input_name()).second)
      return InvalidField(who + " is specified more than once", field + ".input_name");
    if (!outputs.insert(state.output_name()).second) {
      return InvalidField(who + ": output_name '" + state.output_name() + "' is specified more than once",
                          field + ".output_name");
    }
    if (state.data_type() == inference::TYPE_INVALID || !inference::DataType_IsValid(state.data_type())) {
      return InvalidField(who + " must specify 'data_type'", field + ".data_type");
    }
    if (state.dims().empty()) return InvalidField(who + " must specify 'dims'", field + ".dims");
    for (int k = 0; k < state.dims_size(); ++k) {
      if (state.dims(k) < 1 && state.dims(k) != -1) {
        return InvalidField(
            who + " dimension must be integer >= 1, or -1 to indicate a variable-size dimension",
            FieldAt(field + ".dims", k));
      }
    }
    BRAID_RETURN_IF_FAULT(CheckInitialState(state, who, field));
  }
  return {};
}

}  // namespace

FieldFault CheckSequenceBatching(const ModelConfig& config) {
  BRAID_RETURN_IF_FAULT(CheckStrategy(config));
  BRAID_RETURN_IF_FAULT(CheckControls(config));
  return CheckStates(config);
}

FieldFault CheckSequenceTensors(const ModelConfig& config) {
  const Batching& batching = config.sequence_batching();
  std::set<std::string_view> names;
  for (const auto& input : config.input()) names.insert(input.name());
  for (int i = 0; i < batching.control_input_size(); ++i) {
    const auto& input = batching.control_input(i);
    if (names.insert(input.name()).second) continue;
    return InvalidField("sequence batching control input '" + input.name() + "' of " + config.name() +
                            " must not be a model input as well: the server adds it",
                        FieldAt("sequence_batching.control_input", i) + ".name");
  }
  for (int i = 0; i < batching.state_size(); ++i) {
    const auto& state = batching.state(i);
    const std::string field = FieldAt("sequence_batching.state", i);
    const std::string who = "sequence batching state '" + state.input_name() + "' of " + config.name();
    if (!names.insert(state.input_name()).second) {
      return InvalidField(who + " must not be a model input or control input as well: the server adds it",
                          field + ".input_name");
    }
    for (const auto& output : config.output()) {
      if (output.name() == state.output_name() && output.data_type() != state.data_type()) {
        return InvalidField(who + " must have the 'data_type' of output '" + output.name() + "'",
                            field + ".data_type");
      }
    }
  }
  return {};
}

}  // namespace braid
