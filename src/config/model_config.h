// The model configuration: reading config.pbtxt, filling in defaults, and refusing what makes no sense.
//
//   BRAID_ASSIGN_OR_RETURN(inference::ModelConfig config, ParseConfigText(text, "config.pbtxt"));
//   CompleteNames(config, folder_name) ... let the model complete it ...
//   NormalizeConfig(config);
//   BRAID_RETURN_IF_ERROR(ValidateConfig(config));
//
// All functions are pure; any thread. For the JSON form see config/config_json.h; for what this server cannot serve yet see
// config/supported_features.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model_config.pb.h"

namespace braid {

// Reads the text form. Errors: INVALID_ARGUMENT "{file_name}:{line}:{column}: {what}", all faults of the text in one
// message; an unknown field is an error.
Result<inference::ModelConfig> ParseConfigText(std::string_view text, std::string_view file_name);

// What is settled before the model completes its own configuration: the name of the folder, and the version policy (the
// latest one). Errors: a name that is not the folder's.
Status CompleteNames(inference::ModelConfig& config, std::string_view folder_name);

// Writes the defaults into the configuration, so that nobody after this has to know them: instance groups with their names,
// kinds and counts, preferred batch sizes, idle times of sequences, pinned memory flags.
void NormalizeConfig(inference::ModelConfig& config);

// Whether a normalised configuration can be served at all. Errors: INVALID_ARGUMENT with the first fault found.
Status ValidateConfig(const inference::ModelConfig& config);

// One instance that a configuration asks for.
struct InstanceSpec {
  std::string name;  // "add_sub_0_1"; what user code sees
  // "CPU", "GPU", "MODEL" or "AUTO".
  std::string kind;
  int32_t device_id = 0;
  bool passive = false;
};

// The instances of a normalised configuration, group by group.
std::vector<InstanceSpec> ListInstances(const inference::ModelConfig& config);

}  // namespace braid
