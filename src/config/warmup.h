// From `model_warmup` of a configuration to the requests that it describes.
#pragma once

#include <vector>

#include "base/status.h"
#include "config/folder.h"
#include "model_config.pb.h"
#include "serving/warmup.h"

namespace braid {

// The samples of a normalised configuration, those of batch size 0 left out. Data files are read from
// {model_folder}/warmup/. Random data is the same at each load. Errors: INVALID_ARGUMENT that names the
// sample and the input; what Folder::ReadFile() says.
Result<std::vector<WarmupSample>> MakeWarmupSamples(const inference::ModelConfig& config,
                                                    const Folder& model_folder);

}  // namespace braid
