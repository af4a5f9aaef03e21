#include "config/servable_info.h"

#include <algorithm>
#include <string>
#include <utility>

#include "config/initial_states.h"
#include "config/model_config.h"
#include "config/openai_settings.h"
#include "config/warmup.h"

namespace braid {
namespace {

constexpr size_t kMaxLabelBytes = size_t{64} << 20;

// Returns the tensor as clients see it, with the batch dimension first if there is one.
template <class Tensor>
TensorSpec MakeSpec(const Tensor& tensor, bool batching) {
  TensorSpec spec;
  spec.name = tensor.name();
  spec.type = static_cast<DataType>(tensor.data_type());
  if (batching) spec.shape.push_back(-1);
  spec.shape.insert(spec.shape.end(), tensor.dims().begin(), tensor.dims().end());
  if (tensor.has_reshape()) {
    Shape& shape = spec.model_shape.emplace();
    if (batching) shape.push_back(-1);
    shape.insert(shape.end(), tensor.reshape().shape().begin(), tensor.reshape().shape().end());
  }
  return spec;
}

Result<std::vector<std::string>> ReadLabels(const Folder& folder, const std::string& file) {
  auto fault = [&](const std::string& why) {
    return InternalError("failed to open text file for read " + folder.path() + "/" + file + ": " + why);
  };
  if (!IsPlainRelativePath(file)) return fault("the path must stay within the model's folder");
  auto text = folder.ReadFile(file, kMaxLabelBytes);
  if (!text.ok()) {
    return text.status().code() == StatusCode::kNotFound ? fault("No such file or directory") : text.status();
  }
  std::vector<std::string> labels;
  std::string_view rest = *text;
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    std::string_view line = rest.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    labels.emplace_back(line);
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  return labels;
}

}  // namespace

Result<ServableInfo> MakeServableInfo(std::shared_ptr<const inference::ModelConfig> config, int64_t version,
                                      const Folder& model_folder) {
  ServableInfo info;
  info.name = config->name();
  info.version = version;
  info.platform = config->platform().empty() ? config->backend() : config->platform();
  info.max_batch_size = config->max_batch_size();
  info.decoupled = config->model_transaction_policy().decoupled();
  info.any_tensors = IsSet(*config, kAnyTensorsParameter);
  info.openai = OpenAiConventionOf(*config);
  const bool batching = info.max_batch_size > 0;
  for (const auto& input : config->input()) {
    TensorSpec spec = MakeSpec(input, batching);
    spec.optional = input.optional();
    spec.allow_ragged_batch = input.allow_ragged_batch();
    info.inputs.push_back(std::move(spec));
  }
  for (const auto& output : config->output()) {
    TensorSpec spec = MakeSpec(output, batching);
    if (!output.label_filename().empty()) {
      BRAID_ASSIGN_OR_RETURN(spec.labels, ReadLabels(model_folder, output.label_filename()));
    }
    info.outputs.push_back(std::move(spec));
  }
  BRAID_ASSIGN_OR_RETURN(info.initial_states, LoadInitialStates(*config, model_folder));
  const auto instances = ListInstances(*config);
  info.instance_count = static_cast<int>(std::count_if(
      instances.begin(), instances.end(), [](const InstanceSpec& instance) { return !instance.passive; }));
  info.metric_tags.assign(config->metric_tags().begin(), config->metric_tags().end());
  std::sort(info.metric_tags.begin(), info.metric_tags.end());
  BRAID_ASSIGN_OR_RETURN(info.warmup, MakeWarmupSamples(*config, model_folder));
  info.config = std::move(config);
  return info;
}

}  // namespace braid
