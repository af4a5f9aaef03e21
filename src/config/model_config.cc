#include "config/model_config.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

#include "base/nearest_name.h"
#include "base/utf8.h"
#include "config/field_fault.h"
#include "config/folder.h"
#include "config/known_backends.h"
#include "config/openai_settings.h"
#include "config/sequence_config.h"

namespace braid {
namespace {

using inference::ModelConfig;
using inference::ModelInstanceGroup;

// The message type does not contain itself; the limit protects the parser.
constexpr int kMaxNesting = 64;
constexpr int kMaxReportedErrors = 10;
// A larger count is a mistake: each instance is a process.
constexpr int64_t kMaxInstances = 1024;
constexpr uint64_t kMaxPriorityLevels = std::numeric_limits<uint32_t>::max();
constexpr uint64_t kDefaultSequenceIdleUs = 1000000;

// Suggests a name for an unknown field; empty if protobuf's message has another cause.
std::string NearestField(const std::string& message) {
  constexpr std::string_view kType = "Message type \"";
  constexpr std::string_view kField = "\" has no field named \"";
  constexpr size_t kLongestMessage = 512;
  const size_t middle = message.find(kField);
  if (message.size() > kLongestMessage || !message.starts_with(kType) || middle == std::string::npos)
    return "";
  const size_t field = middle + kField.size();
  const auto* type = google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName(
      message.substr(kType.size(), middle - kType.size()));
  if (type == nullptr) return "";
  const std::string name = message.substr(field, message.find('"', field) - field);
  NearestName nearest(name);
  for (int i = 0; i < type->field_count(); ++i) nearest.Offer(type->field(i)->name());
  return nearest.name().empty() ? "" : " Did you mean '" + nearest.name() + "'?";
}

class ErrorCollector : public google::protobuf::io::ErrorCollector {
 public:
  explicit ErrorCollector(std::string_view file_name) : file_name_(file_name) {}

  // The parser counts from 0, editors count from 1; a negative line stands for the whole text.
  void AddError(int line, google::protobuf::io::ColumnNumber column, const std::string& message) override {
    if (++count_ > kMaxReportedErrors) return;
    if (!text_.empty()) text_ += "; ";
    text_ += file_name_ + ":" + std::to_string(line + 1) + ":" + std::to_string(column + 1) + ": " + message +
             NearestField(message);
  }
  void AddWarning(int, google::protobuf::io::ColumnNumber, const std::string&) override {}

  const std::string& text() const { return text_; }

 private:
  std::string file_name_;
  std::string text_;
  int count_ = 0;
};

FieldFault CheckDynamicBatching(const ModelConfig& config) {
  const auto& batching = config.dynamic_batching();
  const std::string& name = config.name();
  for (int i = 0; i < batching.preferred_batch_size_size(); ++i) {
    const int32_t size = batching.preferred_batch_size(i);
    const std::string field = FieldAt("dynamic_batching.preferred_batch_size", i);
    if (size <= 0) return InvalidField("dynamic batching preferred size must be positive for " + name, field);
    if (size > config.max_batch_size()) {
      return InvalidField("dynamic batching preferred size must be <= max batch size for " + name, field);
    }
  }
  const uint64_t levels = batching.priority_levels();
  if (batching.preserve_ordering()) {
    const auto delays = [](const inference::ModelQueuePolicy& policy) {
      return policy.timeout_action() == inference::ModelQueuePolicy::DELAY;
    };
    if (levels > 1) {
      return InvalidField("Only one priority level is allowed when 'preserve_ordering' is true for " + name,
                          "dynamic_batching.priority_levels");
    }
    if (delays(batching.default_queue_policy()) ||
        std::ranges::any_of(batching.priority_queue_policy(),
                            [&](const auto& each) { return delays(each.second); })) {
      return InvalidField(
          "Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true for " + name,
          "dynamic_batching.preserve_ordering");
    }
  }
  if (levels == 0) return {};
  if (levels > kMaxPriorityLevels) {
    return InvalidField(
        "priority levels must be at most " + std::to_string(kMaxPriorityLevels) + " for " + name,
        "dynamic_batching.priority_levels");
  }
  const std::string range = " in range [1, " + std::to_string(levels) + "] for " + name;
  if (batching.default_priority_level() == 0 || batching.default_priority_level() > levels) {
    return InvalidField("default priority level must be" + range, "dynamic_batching.default_priority_level");
  }
  for (const auto& [level, policy] : batching.priority_queue_policy()) {
    if (level == 0 || level > levels) {
      return InvalidField("priority queue policy must have priority level" + range,
                          "dynamic_batching.priority_queue_policy[" + std::to_string(level) + "]");
    }
  }
  return {};
}

FieldFault CheckResponseCache(const ModelConfig& config) {
  if (!config.response_cache().enable()) return {};
  std::string what;
  if (config.model_transaction_policy().decoupled()) {
    what = "'decoupled' transaction policy";
  } else if (config.has_sequence_batching()) {
    what = "sequence batching scheduler";
  } else {
    return {};
  }
  return InvalidField("Response Cache does not currently support model " + config.name() + " with " + what +
                          ". Please disable the response cache.",
                      "response_cache.enable");
}

FieldFault CheckDims(const google::protobuf::RepeatedField<int64_t>& dims, const std::string& who,
                     const std::string& model, const std::string& field) {
  for (int i = 0; i < dims.size(); ++i) {
    if (dims[i] < 1 && dims[i] != -1) {
      return InvalidField(
          who + " must be integer >= 1, or -1 to indicate a variable-size dimension for " + model,
          FieldAt(field, i));
    }
  }
  return {};
}

// Returns the products of the fixed dimensions between variable ones; nullopt if their total product
// overflows int64.
std::optional<std::vector<int64_t>> PartsOf(const google::protobuf::RepeatedField<int64_t>& dims) {
  std::vector<int64_t> parts = {1};
  int64_t all = 1;
  for (int64_t dim : dims) {
    if (dim == -1) {
      parts.push_back(1);
    } else if (__builtin_mul_overflow(all, dim, &all)) {
      return std::nullopt;
    } else {
      parts.back() *= dim;
    }
  }
  return parts;
}

// Checks the fields that inputs and outputs have in common.
template <class Tensor>
FieldFault CheckTensor(const Tensor& tensor, const std::string& side, const std::string& model,
                       const std::string& field) {
  if (tensor.name().empty())
    return InvalidField("model " + side + " must specify 'name' for " + model, field + ".name");
  const std::string who = "model " + side + " '" + tensor.name() + "'";
  if (tensor.data_type() == inference::TYPE_INVALID || !inference::DataType_IsValid(tensor.data_type())) {
    return InvalidField(who + " must specify 'data_type' for " + model, field + ".data_type");
  }
  if (tensor.dims().empty() && !tensor.has_reshape())
    return InvalidField(who + " must specify 'dims' for " + model, field + ".dims");
  BRAID_RETURN_IF_FAULT(CheckDims(tensor.dims(), who + " dimension", model, field + ".dims"));
  const auto parts = PartsOf(tensor.dims());
  if (!parts) return InvalidField(who + " has too many elements for " + model, field + ".dims");
  if (tensor.has_reshape()) {
    const std::string shape = field + ".reshape.shape";
    BRAID_RETURN_IF_FAULT(CheckDims(tensor.reshape().shape(), who + " reshape dimensions", model, shape));
    if (parts != PartsOf(tensor.reshape().shape())) {
      return InvalidField(who + " has different size for dims and reshape for " + model, shape);
    }
  }
  if (tensor.is_shape_tensor()) {
    return InvalidField("shape tensors are only supported for TensorRT platform for " + model,
                        field + ".is_shape_tensor");
  }
  return {};
}

// Applies only to the written configuration: a model completed from its file may have scalars.
template <class Tensors>
FieldFault CheckScalars(const Tensors& tensors, const std::string& side, const std::string& model) {
  for (int i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].has_reshape() || !tensors[i].reshape().shape().empty()) continue;
    return InvalidField("model " + side + " '" + tensors[i].name() +
                            "' cannot have empty reshape for non-batching model as scalar tensors are not "
                            "supported for " +
                            model,
                        FieldAt(side, i) + ".reshape");
  }
  return {};
}

FieldFault CheckTensors(const ModelConfig& config) {
  std::set<std::string_view> names;
  for (int i = 0; i < config.input_size(); ++i) {
    const auto& input = config.input(i);
    const std::string field = FieldAt("input", i);
    BRAID_RETURN_IF_FAULT(CheckTensor(input, "input", config.name(), field));
    if (!inference::ModelInput_Format_IsValid(input.format())) {
      return InvalidField("model input '" + input.name() + "' has an unknown 'format' for " + config.name(),
                          field + ".format");
    }
    if (input.format() != inference::ModelInput::FORMAT_NONE && input.dims_size() != 3) {
      return InvalidField("model input NHWC/NCHW require 3 dims for " + config.name(), field + ".dims");
    }
    if (!names.insert(input.name()).second) {
      return InvalidField(
          "model input '" + input.name() + "' is specified more than once for " + config.name(),
          field + ".name");
    }
  }
  names.clear();
  for (int i = 0; i < config.output_size(); ++i) {
    const auto& output = config.output(i);
    const std::string field = FieldAt("output", i);
    BRAID_RETURN_IF_FAULT(CheckTensor(output, "output", config.name(), field));
    if (!names.insert(output.name()).second) {
      return InvalidField(
          "model output '" + output.name() + "' is specified more than once for " + config.name(),
          field + ".name");
    }
  }
  return {};
}

bool Has(const std::vector<int>& gpus, int gpu) {
  return std::find(gpus.begin(), gpus.end(), gpu) != gpus.end();
}

FieldFault CheckGpus(const ModelInstanceGroup& group, const GpuPlacement& placement, const std::string& who,
                     const std::string& field) {
  if (placement.gpus.empty()) {
    return InvalidField(who + " has kind KIND_GPU but no GPUs are available" + placement.why_none,
                        field + ".kind");
  }
  for (int i = 0; i < group.gpus_size(); ++i) {
    if (Has(placement.gpus, group.gpus(i))) continue;
    std::string available;
    for (const int gpu : placement.gpus) available += " " + std::to_string(gpu);
    // Exactly Triton's text, with its blanks.
    return InvalidField(who + " specifies invalid or unsupported gpu id " + std::to_string(group.gpus(i)) +
                            ". GPUs with at least  the minimum required CUDA compute compatibility of " +
                            std::to_string(placement.least_capability) + " are:" + available,
                        FieldAt(field + ".gpus", i));
  }
  return {};
}

FieldFault CheckInstanceGroups(const ModelConfig& config, const GpuPlacement& placement) {
  int64_t count = 0;
  for (int i = 0; i < config.instance_group_size(); ++i) {
    const auto& group = config.instance_group(i);
    const std::string field = FieldAt("instance_group", i);
    const std::string who = "instance group " + group.name() + " of model " + config.name();
    if (!inference::ModelInstanceGroup_Kind_IsValid(group.kind()))
      return InvalidField(who + " has an unknown kind", field + ".kind");
    if (group.kind() == ModelInstanceGroup::KIND_GPU)
      BRAID_RETURN_IF_FAULT(CheckGpus(group, placement, who, field));
    if (group.kind() == ModelInstanceGroup::KIND_CPU && group.gpus_size() > 0) {
      return InvalidField(who + " has kind KIND_CPU but specifies one or more GPUs", field + ".gpus");
    }
    count += int64_t{group.count()} * std::max(group.gpus_size(), 1);
  }
  if (count > kMaxInstances) {
    return InvalidField("model " + config.name() + " asks for " + std::to_string(count) +
                            " instances, at most " + std::to_string(kMaxInstances) + " are allowed",
                        "instance_group");
  }
  return {};
}

FieldFault CheckParameters(const ModelConfig& config) {
  for (const std::string_view name : {kPinnedParameter, kAnyTensorsParameter}) {
    const auto flag = config.parameters().find(std::string(name));
    if (flag == config.parameters().end()) continue;
    const std::string& value = flag->second.string_value();
    if (value == "true" || value == "false") continue;
    return InvalidField("parameter " + std::string(name) + " of model '" + config.name() + "' is '" + value +
                            "'; expected true or false",
                        "parameters[" + std::string(name) + "].value.string_value");
  }
  if (IsSet(config, kAnyTensorsParameter) &&
      (config.backend() != "python" || config.max_batch_size() > 0 || config.input_size() > 0 ||
       config.output_size() > 0 || config.has_sequence_batching())) {
    return InvalidField("parameter ANY_TENSORS of model '" + config.name() +
                            "' needs backend \"python\" and max_batch_size 0, and excludes input, output and "
                            "sequence_batching",
                        "parameters[ANY_TENSORS].value.string_value");
  }
  BRAID_RETURN_IF_FAULT(CheckOpenAiSettings(config));
  const auto it = config.parameters().find("FORCE_CPU_ONLY_INPUT_TENSORS");
  if (it == config.parameters().end()) return {};
  const std::string& value = it->second.string_value();
  if (value == "yes" || value == "no") return {};
  return InvalidField("Incorrect value for FORCE_CPU_ONLY_INPUT_TENSORS: " + value + "'",
                      "parameters[FORCE_CPU_ONLY_INPUT_TENSORS].value.string_value");
}

std::string_view KindName(ModelInstanceGroup::Kind kind) {
  switch (kind) {
    case ModelInstanceGroup::KIND_CPU:
      return "CPU";
    case ModelInstanceGroup::KIND_GPU:
      return "GPU";
    case ModelInstanceGroup::KIND_MODEL:
      return "MODEL";
    default:
      return "AUTO";
  }
}

// Chooses CPU or GPU. Returns a log message if the CPU replaces the GPU.
std::string Place(ModelInstanceGroup& group, const std::string& model, const GpuPlacement& placement) {
  const bool available =
      !placement.gpus.empty() && std::all_of(group.gpus().begin(), group.gpus().end(),
                                             [&](int gpu) { return Has(placement.gpus, gpu); });
  std::string note;
  if (group.kind() == ModelInstanceGroup::KIND_AUTO) {
    group.set_kind(placement.automatic && available ? ModelInstanceGroup::KIND_GPU
                                                    : ModelInstanceGroup::KIND_CPU);
    if (group.kind() == ModelInstanceGroup::KIND_CPU) group.clear_gpus();
  } else if (group.kind() == ModelInstanceGroup::KIND_GPU && !available && placement.cpu_stands_in) {
    group.set_kind(ModelInstanceGroup::KIND_CPU);
    group.clear_gpus();
    note = "instance group " + group.name() + " of model " + model +
           " has kind KIND_GPU but its GPUs are not available; its instances run on the CPU "
           "(--gpu-fallback=cpu)";
  }
  if (group.kind() == ModelInstanceGroup::KIND_GPU && group.gpus().empty())
    group.mutable_gpus()->Assign(placement.gpus.begin(), placement.gpus.end());
  return note;
}

}  // namespace

Result<ModelConfig> ParseConfigText(std::string_view text, std::string_view file_name) {
  ErrorCollector errors(file_name);
  if (text.size() > static_cast<size_t>(std::numeric_limits<int>::max())) {
    return InvalidArgumentError(std::string(file_name) + ": the text is too long");
  }
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  parser.SetRecursionLimit(kMaxNesting);
  google::protobuf::io::ArrayInputStream input(text.data(), static_cast<int>(text.size()));
  ModelConfig config;
  if (!parser.Parse(&input, &config)) return InvalidArgumentError(Shortened(errors.text(), kMostFaultText));
  return config;
}

bool IsSet(const ModelConfig& config, std::string_view parameter) {
  const auto found = config.parameters().find(std::string(parameter));
  return found != config.parameters().end() && found->second.string_value() == "true";
}

bool IsEnsemble(const ModelConfig& config) {
  return config.has_ensemble_scheduling() || config.platform() == "ensemble";
}

Status CompleteNames(ModelConfig& config, std::string_view folder_name) {
  if (config.name().empty()) {
    config.set_name(std::string(folder_name));
  } else if (config.name() != folder_name) {
    return InvalidArgumentError("unexpected directory name '" + std::string(folder_name) + "' for model '" +
                                Shortened(config.name()) + "', directory name must equal model name");
  }
  auto& policy = *config.mutable_version_policy();
  if (policy.policy_choice_case() == inference::ModelVersionPolicy::POLICY_CHOICE_NOT_SET) {
    policy.mutable_latest()->set_num_versions(1);
  }
  if (config.has_sequence_batching() && config.sequence_batching().max_sequence_idle_microseconds() == 0) {
    config.mutable_sequence_batching()->set_max_sequence_idle_microseconds(kDefaultSequenceIdleUs);
  }
  return OkStatus();
}

namespace {

// Finds faults of everything except tensors and instances.
FieldFault FindSettingFault(const ModelConfig& config) {
  if (config.name().empty()) return InvalidField("model configuration must specify 'name'", "name");
  if (!IsEnsemble(config) && config.backend().empty()) {
    if (config.platform().empty()) {
      return InvalidField("must specify 'platform' or 'backend' for '" + config.name() + "'", "backend");
    }
    return InvalidField("unexpected platform type '" + config.platform() + "' for " + config.name(),
                        "platform");
  }
  if (config.max_batch_size() < 0) {
    return InvalidField("'max_batch_size' must be non-negative value for " + config.name(), "max_batch_size");
  }
  if (config.has_dynamic_batching()) BRAID_RETURN_IF_FAULT(CheckDynamicBatching(config));
  if (config.has_sequence_batching()) BRAID_RETURN_IF_FAULT(CheckSequenceBatching(config));
  return CheckResponseCache(config);
}

}  // namespace

FieldFault FindFileFault(const ModelConfig& config) {
  BRAID_RETURN_IF_FAULT(FindSettingFault(config));
  if (config.max_batch_size() > 0) return {};
  BRAID_RETURN_IF_FAULT(CheckScalars(config.input(), "input", config.name()));
  return CheckScalars(config.output(), "output", config.name());
}

Status CheckConfigFile(const ModelConfig& config) { return FindFileFault(config).status; }

std::vector<std::string> NormalizeConfig(ModelConfig& config, const GpuPlacement& placement) {
  std::vector<std::string> notes;
  if (config.has_dynamic_batching() && config.dynamic_batching().preferred_batch_size().empty() &&
      config.max_batch_size() > 0) {
    config.mutable_dynamic_batching()->add_preferred_batch_size(config.max_batch_size());
  }
  if (!IsEnsemble(config)) {
    if (config.instance_group().empty()) {
      config.add_instance_group()->set_name(config.name());
    }
    for (int i = 0; i < config.instance_group_size(); ++i) {
      auto& group = *config.mutable_instance_group(i);
      if (group.name().empty()) group.set_name(config.name() + "_" + std::to_string(i));
      if (group.count() < 1) group.set_count(1);
      if (std::string note = Place(group, config.name(), placement); !note.empty())
        notes.push_back(std::move(note));
    }
  }
  config.set_default_model_filename(ModelFileOf(config));
  if (IsEnsemble(config)) return notes;
  auto& optimization = *config.mutable_optimization();
  if (!optimization.has_input_pinned_memory()) optimization.mutable_input_pinned_memory()->set_enable(true);
  if (!optimization.has_output_pinned_memory()) optimization.mutable_output_pinned_memory()->set_enable(true);
  return notes;
}

Status ValidateModelFile(const ModelConfig& config) {
  const std::string& file = config.default_model_filename();
  if (file.empty()) return OkStatus();
  if (!IsPlainRelativePath(file)) {
    return InvalidArgumentError(
        "'default_model_filename' must name a file in the version folder, without '..', for " +
        config.name());
  }
  const KnownBackend* backend = FindKnownBackend(config.backend());
  if (backend != nullptr && !file.ends_with(backend->file_extension)) {
    return InternalError("Model name must end with '" + std::string(backend->file_extension) +
                         "'. Model name is \"" + file + "\".");
  }
  return OkStatus();
}

FieldFault FindConfigFault(const ModelConfig& config, const GpuPlacement& placement) {
  BRAID_RETURN_IF_FAULT(FindSettingFault(config));
  BRAID_RETURN_IF_FAULT(CheckInstanceGroups(config, placement));
  BRAID_RETURN_IF_FAULT(FieldFault(ValidateModelFile(config), "default_model_filename"));
  BRAID_RETURN_IF_FAULT(CheckParameters(config));
  BRAID_RETURN_IF_FAULT(CheckTensors(config));
  return CheckSequenceTensors(config);
}

Status ValidateConfig(const ModelConfig& config, const GpuPlacement& placement) {
  return FindConfigFault(config, placement).status;
}

std::vector<InstanceSpec> ListInstances(const ModelConfig& config) {
  std::vector<InstanceSpec> instances;
  for (const auto& group : config.instance_group()) {
    int number = 0;
    for (const int device : DevicesOfInstances(group)) {
      instances.push_back({group.name() + "_" + std::to_string(number++), std::string(KindName(group.kind())),
                           device, group.passive()});
    }
  }
  return instances;
}

}  // namespace braid
