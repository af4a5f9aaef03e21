// Makes a ServableInfo, the description of a servable for the protocols, from a configuration.
#pragma once

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "config/folder.h"
#include "model_config.pb.h"
#include "serving/servable.h"

namespace braid {

// Returns the description of one version. Label files and initial states are read from `model_folder`.
// REQUIRES: `config` is normalised and valid. Errors: a file that is missing, too large, or outside the
// model's folder.
Result<ServableInfo> MakeServableInfo(std::shared_ptr<const inference::ModelConfig> config, int64_t version,
                                      const Folder& model_folder);

}  // namespace braid
