// The model configuration: reading config.pbtxt, filling in defaults, and refusing what makes no sense.
//
//   BRAID_ASSIGN_OR_RETURN(inference::ModelConfig config, ParseConfigText(text, "config.pbtxt"));
//   BRAID_RETURN_IF_ERROR(CompleteNames(config, folder_name));
//   BRAID_RETURN_IF_ERROR(CheckConfigFile(config));
//   ... the model completes its own configuration ...
//   NormalizeConfig(config);
//   BRAID_RETURN_IF_ERROR(ValidateConfig(config));
//
// All functions are pure; any thread. For the JSON form see config/config_json.h; for what this server does
// not serve, see config/supported_features.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "config/field_fault.h"
#include "model_config.pb.h"
#include "serving/gpu_placement.h"

namespace braid {

// Reads the text form. Errors: INVALID_ARGUMENT "{file_name}:{line}:{column}: {what}", all faults of the text
// in one message; an unknown field is an error.
Result<inference::ModelConfig> ParseConfigText(std::string_view text, std::string_view file_name);

// Whether a configuration is that of an ensemble, which runs other models and has no backend.
bool IsEnsemble(const inference::ModelConfig& config);

// What is settled before the model completes its own configuration: the name of the folder, the version
// policy (the latest one), and the idle time of sequences. Errors: a name that is not the folder's.
Status CompleteNames(inference::ModelConfig& config, std::string_view folder_name);

// What can be judged before the model completes its own configuration: everything but tensors and instances. Scalars that
// are written without batches are refused.
// Errors: INVALID_ARGUMENT with the first fault found.
Status CheckConfigFile(const inference::ModelConfig& config);
// The same, and which field it is.
FieldFault FindFileFault(const inference::ModelConfig& config);

// Writes the defaults into the configuration, so that nobody after this has to know them: instance groups
// with their names, kinds, counts and GPUs, preferred batch sizes, the file that runs, pinned memory flags. Returns
// sentences for the log: which groups do not get the GPUs that they want.
std::vector<std::string> NormalizeConfig(inference::ModelConfig& config, const GpuPlacement& placement = {});

// Whether default_model_filename can be the file that runs: a plain path, for python one that ends in ".py".
// Errors: INTERNAL, INVALID_ARGUMENT.
Status ValidateModelFile(const inference::ModelConfig& config);

// Whether a configuration that is normalised for the same placement can be served at all; includes the checks above.
// Errors: INVALID_ARGUMENT or INTERNAL with the first fault found.
Status ValidateConfig(const inference::ModelConfig& config, const GpuPlacement& placement = {});
// The same, and which field it is.
FieldFault FindConfigFault(const inference::ModelConfig& config, const GpuPlacement& placement = {});

// One instance that a configuration asks for.
struct InstanceSpec {
  std::string name;  // "add_sub_0_1"; what user code sees. No two of a model have the same
  std::string kind;  // "CPU", "GPU" or "MODEL"
  int32_t device_id = 0;
  bool passive = false;
};

// The instances of a normalised configuration, group by group.
std::vector<InstanceSpec> ListInstances(const inference::ModelConfig& config);

}  // namespace braid
