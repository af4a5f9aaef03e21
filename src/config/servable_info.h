// From a configuration to what protocols need to know of a servable.
#pragma once

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "config/folder.h"
#include "model_config.pb.h"
#include "serving/servable.h"

namespace braid {

// The specification of one version. `config` is normalised and valid; `model_folder` is where label files and
// initial states are read from. Errors: such a file that is missing, too large, or outside the model's
// folder.
Result<ServableInfo> MakeServableInfo(std::shared_ptr<const inference::ModelConfig> config, int64_t version,
                                      const Folder& model_folder);

}  // namespace braid
