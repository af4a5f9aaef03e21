// The model configuration: parsing config.pbtxt, completing defaults, and validation.
//
//   BRAID_ASSIGN_OR_RETURN(inference::ModelConfig config, ParseConfigText(text, "config.pbtxt"));
//   BRAID_RETURN_IF_ERROR(CompleteNames(config, folder_name));
//   BRAID_RETURN_IF_ERROR(CheckConfigFile(config));
//   ... the model completes its own configuration ...
//   NormalizeConfig(config);
//   BRAID_RETURN_IF_ERROR(ValidateConfig(config));
//
// All functions are pure and thread-safe. For the JSON form see config/config_json.h; for features that this
// server does not support, see config/supported_features.h.
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

// The parameter of models that --models-memory-max-bytes never unloads: "true" or "false".
inline constexpr std::string_view kPinnedParameter = "PINNED";
// The parameter of Python models that take inputs and outputs of any name, type and shape, and declare none.
inline constexpr std::string_view kAnyTensorsParameter = "ANY_TENSORS";

// Parses the text form. Errors: INVALID_ARGUMENT "{file_name}:{line}:{column}: {what}", all faults of the
// text in one message. Unknown fields are errors.
Result<inference::ModelConfig> ParseConfigText(std::string_view text, std::string_view file_name);

// Whether the configuration is an ensemble's, which runs other models and has no backend.
bool IsEnsemble(const inference::ModelConfig& config);

// Whether a parameter that is "true" or "false" is "true".
bool IsSet(const inference::ModelConfig& config, std::string_view parameter);

// Fills in the fields that a model cannot complete itself: name, version policy (the latest), and idle time
// of sequences. Errors: the name is not the folder's.
Status CompleteNames(inference::ModelConfig& config, std::string_view folder_name);

// Checks everything except tensors and instances, before the model completes its configuration. Scalars
// written without batches are refused. Errors: INVALID_ARGUMENT with the first fault.
Status CheckConfigFile(const inference::ModelConfig& config);
// Like CheckConfigFile(), with the field.
FieldFault FindFileFault(const inference::ModelConfig& config);

// Writes the defaults into the configuration, so that later code need not know them. They cover instance
// groups with their names, kinds, counts and GPUs, preferred batch sizes, the model file and pinned memory
// flags. Returns log messages about groups that do not get the GPUs they asked for.
std::vector<std::string> NormalizeConfig(inference::ModelConfig& config, const GpuPlacement& placement = {});

// Checks that default_model_filename is a plain path, and ends in ".py" for python. Errors: INTERNAL,
// INVALID_ARGUMENT.
Status ValidateModelFile(const inference::ModelConfig& config);

// Checks whether a configuration can be served; includes the checks above. REQUIRES: it is normalised for the
// same placement. Errors: INVALID_ARGUMENT or INTERNAL with the first fault.
Status ValidateConfig(const inference::ModelConfig& config, const GpuPlacement& placement = {});
// Like ValidateConfig(), with the field.
FieldFault FindConfigFault(const inference::ModelConfig& config, const GpuPlacement& placement = {});

// One instance of a model.
struct InstanceSpec {
  std::string name;  // "add_sub_0_1"; unique within a model and visible to user code
  std::string kind;  // "CPU", "GPU" or "MODEL"
  int32_t device_id = 0;
  bool passive = false;
};

// Returns the instances of a normalised configuration, group by group.
std::vector<InstanceSpec> ListInstances(const inference::ModelConfig& config);

}  // namespace braid
