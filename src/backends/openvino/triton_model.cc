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

// Parameters that the server itself handles.
constexpr std::string_view kServersParameters[] = {"FORCE_CPU_ONLY_INPUT_TENSORS", kIsolateParameter,
                                                   kPinnedParameter};

Result<std::shared_ptr<ov::Model>> ReadModel(const ModelLocation& location,
                                             const inference::ModelConfig& config, OpenVinoRuntime& runtime) {
  BRAID_RETURN_IF_ERROR(CheckTritonBackend(config));
  BRAID_ASSIGN_OR_RETURN(const ModelFile file, CheckModelFile(location.model_file));
  return runtime.Read(file);
}

// Parameters of Triton's backend for OpenVINO that are not properties of a device.
constexpr std::string_view kTargetDevice = "TARGET_DEVICE";
constexpr std::string_view kHintBf16 = "HINT_BF16";
constexpr std::string_view kExtensionPath = "CPU_EXTENSION_PATH";
// These have no meaning here: batches have any size, shapes come from the configuration, and compilation uses
// all threads.
constexpr std::string_view kWithoutMeaning[] = {"COMPILATION_NUM_THREADS", "ENABLE_BATCH_PADDING",
                                                "RESHAPE_IO_LAYERS", "SKIP_OV_DYNAMIC_BATCHSIZE"};

Result<ov::element::Type> PrecisionOf(const inference::ModelConfig& config, const std::string& hint) {
  if (hint == "YES") return ov::element::bf16;
  if (hint == "NO") return ov::element::f32;
  return InvalidArgumentError("model '" + config.name() + "': parameter '" + std::string(kHintBf16) +
                              "' is '" + hint + "', expected \"YES\" or \"NO\"");
}

Result<ov::AnyMap> PropertiesOf(const inference::ModelConfig& config, OpenVinoRuntime& runtime,
                                const std::string& device, Logger& log) {
  const std::string precision = ov::hint::inference_precision.name();
  ov::AnyMap properties;
  BRAID_ASSIGN_OR_RETURN(const std::vector<std::string> known, runtime.Properties(device));
  for (const auto& [name, value] : config.parameters()) {
    if (name == kTargetDevice || std::ranges::find(kServersParameters, name) != std::end(kServersParameters))
      continue;
    if (std::find(known.begin(), known.end(), name) != known.end()) {
      properties.emplace(name, value.string_value());
    } else if (name == kHintBf16) {
      BRAID_ASSIGN_OR_RETURN(const ov::element::Type type, PrecisionOf(config, value.string_value()));
      properties.emplace(precision, type);
    } else if (name == kExtensionPath) {
      return UnsupportedError("model '" + config.name() + "': parameter '" + name +
                              "' is not supported; use --cpu_extension, which applies to all models");
    } else if (config.backend() != "openvino" ||
               std::ranges::find(kWithoutMeaning, name) != std::end(kWithoutMeaning)) {
      BRAID_LOG_INFO(log, "model '{}': parameter '{}' has no effect: OpenVINO runs the model", config.name(),
                     name);
    } else {
      std::string list;
      for (const std::string& each : known) list += (list.empty() ? "" : ", ") + each;
      return InvalidArgumentError("model '" + config.name() + "': parameter '" + name +
                                  "' is not an OpenVINO property of device " + device +
                                  "; expected one of: " + list);
    }
  }
  // On some processors OpenVINO computes FP32 in BF16. Triton's runtimes do not, and a model must compute the
  // same numbers on every machine.
  if (std::find(known.begin(), known.end(), precision) != known.end() &&
      !properties.contains(ov::hint::execution_mode.name())) {
    properties.emplace(precision, ov::element::f32);
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
          log, "model '{}' has variables, but no sequence_batching, so each request starts with a new state",
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
                              "; OpenVINO runs all instances of a model on one device; for several, use AUTO "
                              "or MULTI in a config.json");
    }
    options.device = device;
    instances.push_back({instance.name, instance.passive});
  }
  if (const auto target = config.parameters().find(std::string(kTargetDevice));
      target != config.parameters().end())
    options.device = target->second.string_value();
  BRAID_ASSIGN_OR_RETURN(options.properties, PropertiesOf(config, runtime, options.device, log));
  options.infer_requests = static_cast<uint32_t>(instances.size());
  BRAID_ASSIGN_OR_RETURN(const bool may_be_isolated, IsIsolated(config, true));
  options.trusted = !may_be_isolated;
  BRAID_RETURN_IF_ERROR(CheckSmallerTypes(facts, options.device, runtime.smaller_types(), log));
  BRAID_ASSIGN_OR_RETURN(Compiled compiled, runtime.Compile(model, options));
  TakeShapes(compiled.model, facts);
  BRAID_LOG_INFO(log, "model '{}' is for {}; OpenVINO runs it on {}{}", config.name(), config.backend(),
                 options.device, DescribePrecision(compiled.precision));
  return std::unique_ptr<BackendModel>(std::make_unique<OpenVinoModel>(
      runtime.MakeSource(config.name(), std::move(compiled), model, options, log), std::move(facts),
      instances, location.temporary_files));
}

}  // namespace braid
