#include "backends/openvino/config_model.h"

#include <utility>
#include <vector>

#include "backends/openvino/compiled_facts.h"
#include "backends/openvino/element_types.h"
#include "backends/openvino/model_files.h"
#include "backends/openvino/model_settings.h"
#include "backends/openvino/openvino_errors.h"
#include "backends/openvino/openvino_model.h"
#include "backends/openvino/tensor_names.h"
#include "config/model_config.h"

namespace braid {
namespace {

// Settings that mean nothing for a model without state.
Status CheckKind(const OvmsModelConfig& config) {
  if (config.stateful) {
    return UnsupportedError(
        "model '" + config.name +
        "': stateful models are not supported yet; without \"stateful\": true it runs as a model "
        "that keeps nothing between requests");
  }
  if (config.low_latency_transformation) {
    return InvalidArgumentError("model '" + config.name +
                                "': low_latency_transformation is for stateful models");
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

CompileOptions OptionsOf(const OvmsModelConfig& config) {
  CompileOptions options;
  options.device = config.target_device.empty() ? "CPU" : config.target_device;
  for (const auto& [name, value] : config.plugin_config)
    options.properties.emplace(name, PropertyText(value));
  options.use_cache = config.allow_cache;
  options.infer_requests = config.nireq;
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

// What the scheduler and the protocols of the other world need to see.
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
  BRAID_RETURN_IF_ERROR(CheckKind(config));
  BRAID_ASSIGN_OR_RETURN(const ModelFile file, FindModelFile(version_path));
  BRAID_ASSIGN_OR_RETURN(std::shared_ptr<ov::Model> model, runtime.Read(file));
  ModelNames names = NamesOf(*model);
  BRAID_RETURN_IF_ERROR(ApplyMappingFile(version_path, config.name, names, log));
  BRAID_ASSIGN_OR_RETURN(const AppliedSettings applied, ApplySettings(config, names, model));

  BRAID_ASSIGN_OR_RETURN(CompiledFacts facts, MakeFacts(config.name, *model, names));
  facts.dialect = Dialect::kOvms;
  facts.automatic = applied.automatic;
  info = {};
  info.name = config.name;
  info.version = version;
  info.dialect = Dialect::kOvms;
  info.platform = "OpenVINO";
  info.automatic_shape = applied.automatic;
  BRAID_RETURN_IF_ERROR(AddSpecs(facts, facts.inputs, model->inputs(), applied.input_layouts, info.inputs));
  BRAID_RETURN_IF_ERROR(
      AddSpecs(facts, facts.outputs, model->outputs(), applied.output_layouts, info.outputs));

  BRAID_ASSIGN_OR_RETURN(Compiled compiled, runtime.Compile(model, OptionsOf(config)));
  TakeShapes(compiled.model, facts);
  info.instance_count = static_cast<int>(compiled.infer_requests);
  info.stream_count = compiled.streams;
  info.config = MakeModelConfig(info);
  std::vector<OpenVinoModel::InstanceName> instances;
  for (const InstanceSpec& instance : ListInstances(*info.config))
    instances.push_back({instance.name, false});
  BRAID_LOG_INFO(log, "model '{}' version {}: {} '{}' on {} with {} infer requests", config.name, version,
                 FormatName(file.format), file.path, config.target_device, compiled.infer_requests);
  return std::unique_ptr<BackendModel>(
      std::make_unique<OpenVinoModel>(std::move(compiled.model), std::move(facts), instances, nullptr));
}

}  // namespace braid
