#include "backends/openvino/triton_model.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "backends/openvino/compiled_facts.h"
#include "backends/openvino/model_files.h"
#include "backends/openvino/model_states.h"
#include "backends/openvino/openvino_model.h"
#include "backends/openvino/tensor_names.h"
#include "backends/openvino/triton_config.h"
#include "backends/openvino/triton_files.h"
#include "backends/openvino/triton_states.h"
#include "config/isolated_parts.h"
#include "config/model_config.h"

namespace braid {
namespace {

// Parameters that the server itself knows.
constexpr std::string_view kServersParameters[] = {"FORCE_CPU_ONLY_INPUT_TENSORS", kIsolateParameter};

Result<std::shared_ptr<ov::Model>> ReadModel(const ModelLocation& location,
                                             const inference::ModelConfig& config, OpenVinoRuntime& runtime) {
  BRAID_RETURN_IF_ERROR(CheckTritonBackend(config));
  BRAID_ASSIGN_OR_RETURN(const ModelFile file, CheckModelFile(location.model_file));
  return runtime.Read(file);
}

Result<ov::AnyMap> PropertiesOf(const inference::ModelConfig& config, OpenVinoRuntime& runtime,
                                const std::string& device) {
  ov::AnyMap properties;
  if (config.parameters().empty()) return properties;
  BRAID_ASSIGN_OR_RETURN(const std::vector<std::string> known, runtime.Properties(device));
  for (const auto& [name, value] : config.parameters()) {
    if (std::ranges::find(kServersParameters, name) != std::end(kServersParameters)) continue;
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      std::string list;
      for (const std::string& each : known) list += (list.empty() ? "" : ", ") + each;
      return InvalidArgumentError("model '" + config.name() + "': parameter '" + name +
                                  "' is none of OpenVINO's for device " + device + ", which are: " + list);
    }
    properties.emplace(name, value.string_value());
  }
  return properties;
}

}  // namespace

Status AutoCompleteTritonModel(const ModelLocation& location, OpenVinoRuntime& runtime,
                               inference::ModelConfig& config) {
  BRAID_ASSIGN_OR_RETURN(const std::shared_ptr<ov::Model> model, ReadModel(location, config, runtime));
  const ModelNames names = NamesOf(*model);
  if (config.has_sequence_batching()) {
    BRAID_ASSIGN_OR_RETURN(const ModelStates states, TakeTritonStates(config, *model));
    BRAID_RETURN_IF_ERROR(CompleteTritonStates(states, config));
  }
  return CompleteTritonConfig(*model, names, config);
}

Result<std::unique_ptr<BackendModel>> CreateTritonModel(const ModelLocation& location,
                                                        const inference::ModelConfig& config,
                                                        OpenVinoRuntime& runtime, Logger& log) {
  if (config.model_transaction_policy().decoupled()) {
    return InvalidArgumentError("model '" + config.name() +
                                "' cannot be decoupled: OpenVINO answers each request once");
  }
  BRAID_ASSIGN_OR_RETURN(const std::shared_ptr<ov::Model> model, ReadModel(location, config, runtime));
  ModelNames names = NamesOf(*model);
  std::vector<std::string> forgotten;
  if (config.has_sequence_batching()) {
    BRAID_ASSIGN_OR_RETURN(const ModelStates states, TakeTritonStates(config, *model));
    BRAID_RETURN_IF_ERROR(FitTritonStates(config, states, names));
  } else {
    bool changed = false;
    forgotten = ForgetStates(*model, changed);
    if (changed) {
      BRAID_LOG_WARNING(
          log, "model '{}' has variables, but no sequence_batching, so each of its requests begins anew",
          config.name());
    }
  }
  BRAID_RETURN_IF_ERROR(FitTritonModel(config, *model, names));
  BRAID_ASSIGN_OR_RETURN(CompiledFacts facts, MakeFacts(config.name(), *model, names));
  facts.dialect = Dialect::kTriton;
  facts.output_memory = runtime.output_memory();
  AddForgotten(forgotten, facts);

  std::vector<OpenVinoModel::InstanceName> instances;
  CompileOptions options;
  for (const InstanceSpec& instance : ListInstances(config)) {
    const std::string device = instance.kind == "GPU" ? "GPU." + std::to_string(instance.device_id) : "CPU";
    if (!instances.empty() && device != options.device) {
      return UnsupportedError("model '" + config.name() + "': its instance groups are on " + options.device +
                              " and on " + device +
                              "; OpenVINO runs all instances of a model on one device, AUTO and MULTI of a "
                              "config.json are for several");
    }
    options.device = device;
    instances.push_back({instance.name, instance.passive});
  }
  BRAID_ASSIGN_OR_RETURN(options.properties, PropertiesOf(config, runtime, options.device));
  options.infer_requests = static_cast<uint32_t>(instances.size());
  BRAID_ASSIGN_OR_RETURN(const bool may_be_isolated, IsIsolated(config, true));
  options.trusted = !may_be_isolated;
  BRAID_ASSIGN_OR_RETURN(Compiled compiled, runtime.Compile(model, options));
  TakeShapes(compiled.model, facts);
  if (config.backend() != "openvino") {
    BRAID_LOG_INFO(log, "model '{}' is for {}; OpenVINO runs it", config.name(), config.backend());
  }
  return std::unique_ptr<BackendModel>(std::make_unique<OpenVinoModel>(
      runtime.MakeSource(config.name(), std::move(compiled), model, options, log), std::move(facts),
      instances, location.temporary_files));
}

}  // namespace braid
