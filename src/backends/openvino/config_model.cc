#include "backends/openvino/config_model.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "backends/openvino/compiled_facts.h"
#include "backends/openvino/element_types.h"
#include "backends/openvino/model_files.h"
#include "backends/openvino/model_settings.h"
#include "backends/openvino/model_states.h"
#include "backends/openvino/openvino_errors.h"
#include "backends/openvino/openvino_model.h"
#include "backends/openvino/tensor_names.h"
#include "config/model_config.h"
#include "serving/sequence_inputs.h"

namespace braid {
namespace {

Status WithoutState(const OvmsModelConfig& config, const ov::Model& model) {
  std::string text = "model '" + config.name +
                     "' cannot be stateful: it has no variables (pairs of ReadValue and Assign) that change";
  if (const std::string loop = FindLoop(model); !loop.empty() && !config.low_latency_transformation) {
    text += "; low_latency_transformation can turn its " + loop + " into variables";
  } else if (config.low_latency_transformation) {
    text += ", and low_latency_transformation found no TensorIterator or Loop";
  }
  return InvalidArgumentError(std::move(text));
}

// Takes the states out of a stateful model.
Result<ModelStates> PrepareStates(const OvmsModelConfig& config, const std::shared_ptr<ov::Model>& model) {
  if (config.low_latency_transformation) {
    BRAID_RETURN_IF_ERROR(Guarded([&] { ApplyLowLatency(model); },
                                  [&](const std::string& text) {
                                    return InvalidArgumentError("low_latency_transformation: " + text);
                                  }));
  }
  std::optional<Result<ModelStates>> states;
  BRAID_RETURN_IF_ERROR(Guarded([&] { states = TakeStates(*model); },
                                [&](const std::string& text) {
                                  return InvalidArgumentError("the states of model '" + config.name +
                                                              "' cannot be kept: " + text);
                                }));
  if (states->ok() && (*states)->states.empty()) return WithoutState(config, *model);
  return *std::move(states);
}

StatefulSpec MakeStatefulSpec(const OvmsModelConfig& config, const ModelStates& states) {
  StatefulSpec spec;
  spec.max_sequences = config.max_sequence_number;
  spec.idle_cleanup = config.idle_sequence_cleanup;
  spec.allow_in_pipelines = config.allow_in_pipelines;
  for (const ModelState& state : states.states) {
    StateSpec& made = spec.states.emplace_back();
    made.name = state.name;
    made.type = *FromElementType(state.element);
    made.shape = FromPartialShape(state.shape);
  }
  return spec;
}

// Sequences use inputs of these names, and an output returns the id, so the model must not have them.
Status CheckNames(const OvmsModelConfig& config, const ModelNames& names) {
  const auto check = [&](std::string_view kind, const std::vector<PortNames>& ports, std::string_view taken) {
    const auto found =
        std::find_if(ports.begin(), ports.end(), [&](const PortNames& port) { return port.name == taken; });
    if (found == ports.end()) return OkStatus();
    return InvalidArgumentError(std::string(kind) + " '" + found->name + "' of stateful model '" +
                                config.name +
                                "' has a name reserved for sequences; rename it in mapping_config.json");
  };
  BRAID_RETURN_IF_ERROR(check("input", names.inputs, kSequenceIdInput));
  BRAID_RETURN_IF_ERROR(check("input", names.inputs, kSequenceControlInput));
  return check("output", names.outputs, kSequenceIdInput);
}

// Resets the states before each request of a model that is not stateful, so that requests do not see each
// other's.
Status ForgetAll(const OvmsModelConfig& config, ov::Model& model, Logger& log,
                 std::vector<std::string>& variables) {
  bool changed = false;
  BRAID_RETURN_IF_ERROR(Guarded([&] { variables = ForgetStates(model, changed); },
                                [&](const std::string& text) {
                                  return InvalidArgumentError("the states of model '" + config.name +
                                                              "' cannot be removed: " + text);
                                }));
  if (changed) {
    BRAID_LOG_WARNING(
        log,
        "model '{}' has variables, but is not \"stateful\": true, so each request starts with a new state",
        config.name);
  }
  return OkStatus();
}

std::string PropertyText(const std::variant<std::string, bool, int64_t, double>& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "YES" : "NO";
  if (const auto* number = std::get_if<int64_t>(&value)) return std::to_string(*number);
  std::string text = std::to_string(std::get<double>(value));
  return text;
}

// Translates property names from before OpenVINO 2022 to current ones.
std::pair<std::string, std::string> TodaysProperty(const std::string& name, std::string value, Logger& log) {
  const bool streams = name == "CPU_THROUGHPUT_STREAMS" || name == "GPU_THROUGHPUT_STREAMS";
  if (!streams && name != "CPU_THREADS_NUM") return {name, std::move(value)};
  std::pair<std::string, std::string> now{streams ? "NUM_STREAMS" : "INFERENCE_NUM_THREADS",
                                          std::move(value)};
  if (streams && now.second.ends_with("_AUTO")) now = {"PERFORMANCE_HINT", "THROUGHPUT"};
  BRAID_LOG_WARNING(log, "plugin_config: '{}' is deprecated; '{}' is set to '{}' instead", name, now.first,
                    now.second);
  return now;
}

CompileOptions OptionsOf(const OvmsModelConfig& config, Logger& log) {
  CompileOptions options;
  options.device = config.target_device.empty() ? "CPU" : config.target_device;
  for (const auto& [name, value] : config.plugin_config)
    options.properties.insert(TodaysProperty(name, PropertyText(value), log));
  options.use_cache = config.allow_cache;
  options.infer_requests = config.nireq;
  options.trusted = !config.isolate.value_or(true);
  return options;
}

template <class Ports>
Status AddSpecs(const CompiledFacts& facts, const std::vector<CompiledTensor>& tensors, const Ports& ports,
                const std::vector<std::string>& layouts, std::vector<TensorSpec>& specs) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    const ov::PartialShape& shape = ports[i].get_partial_shape();
    if (shape.rank().is_dynamic()) {
      return InvalidArgumentError("tensor '" + tensors[i].name + "' of model '" + facts.model_name +
                                  "' has no fixed number of dimensions; give its shape in the configuration");
    }
    TensorSpec& spec = specs.emplace_back();
    spec.name = tensors[i].name;
    spec.type = tensors[i].type;
    spec.shape = FromPartialShape(shape);
    spec.ranges = RangesOf(shape);
    spec.layout = layouts[i];
  }
  return OkStatus();
}

// Makes the configuration that the scheduler and Triton's protocols need.
std::shared_ptr<const inference::ModelConfig> MakeModelConfig(const ServableInfo& info) {
  auto config = std::make_shared<inference::ModelConfig>();
  config->set_name(info.name);
  config->set_backend("openvino");
  config->mutable_version_policy()->mutable_specific()->add_versions(info.version);
  const auto add = [](const TensorSpec& spec, auto& tensor) {
    tensor.set_name(spec.name);
    tensor.set_data_type(static_cast<inference::DataType>(spec.type));
    for (int64_t dimension : spec.shape) tensor.add_dims(dimension);
  };
  for (const TensorSpec& spec : info.inputs) add(spec, *config->add_input());
  for (const TensorSpec& spec : info.outputs) add(spec, *config->add_output());
  auto& group = *config->add_instance_group();
  group.set_count(info.instance_count);
  NormalizeConfig(*config);
  return config;
}

}  // namespace

Result<std::unique_ptr<BackendModel>> LoadConfigModel(const OvmsModelConfig& config, int64_t version,
                                                      const std::string& version_path,
                                                      OpenVinoRuntime& runtime, Logger& log,
                                                      ServableInfo& info) {
  BRAID_ASSIGN_OR_RETURN(const ModelFile file, FindModelFile(version_path));
  BRAID_ASSIGN_OR_RETURN(std::shared_ptr<ov::Model> model, runtime.Read(file));
  ModelNames names = NamesOf(*model);
  BRAID_RETURN_IF_ERROR(ApplyMappingFile(version_path, config.name, names, log));
  BRAID_ASSIGN_OR_RETURN(const AppliedSettings applied, ApplySettings(config, names, model));

  ModelStates states;
  std::vector<std::string> forgotten;
  if (config.stateful) {
    BRAID_RETURN_IF_ERROR(CheckNames(config, names));
    BRAID_ASSIGN_OR_RETURN(states, PrepareStates(config, model));
  } else {
    BRAID_RETURN_IF_ERROR(ForgetAll(config, *model, log, forgotten));
  }
  BRAID_ASSIGN_OR_RETURN(CompiledFacts facts, MakeFacts(config.name, *model, names));
  facts.dialect = Dialect::kOvms;
  facts.output_memory = runtime.output_memory();
  info = {};
  info.name = config.name;
  info.version = version;
  info.dialect = Dialect::kOvms;
  info.platform = "OpenVINO";
  info.automatic_shape = applied.automatic;
  BRAID_RETURN_IF_ERROR(AddSpecs(facts, facts.inputs, model->inputs(), applied.input_layouts, info.inputs));
  BRAID_RETURN_IF_ERROR(
      AddSpecs(facts, facts.outputs, model->outputs(), applied.output_layouts, info.outputs));

  if (config.stateful) {
    info.stateful = MakeStatefulSpec(config, states);
    BRAID_RETURN_IF_ERROR(AddStates(*model, std::move(states), facts));
  }
  AddForgotten(forgotten, facts);

  const CompileOptions options = OptionsOf(config, log);
  BRAID_RETURN_IF_ERROR(CheckSmallerTypes(facts, options.device, runtime.smaller_types(), log));
  BRAID_ASSIGN_OR_RETURN(Compiled compiled, runtime.Compile(model, options));
  TakeShapes(compiled.model, facts);
  info.instance_count = static_cast<int>(compiled.infer_requests);
  info.stream_count = compiled.streams;
  info.config = MakeModelConfig(info);
  std::vector<OpenVinoModel::InstanceName> instances;
  for (const InstanceSpec& instance : ListInstances(*info.config))
    instances.push_back({instance.name, false});
  BRAID_LOG_INFO(log, "model '{}' version {}: {} '{}' on {} with {} infer requests{}", config.name, version,
                 FormatName(file.format), file.path, config.target_device, compiled.infer_requests,
                 DescribePrecision(compiled.precision));
  return std::unique_ptr<BackendModel>(std::make_unique<OpenVinoModel>(
      runtime.MakeSource(config.name, std::move(compiled), model, options, log), std::move(facts), instances,
      nullptr));
}

}  // namespace braid
