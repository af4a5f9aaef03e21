// Makes the requests of a configuration's `model_warmup`.
#pragma once

#include <vector>

#include "base/status.h"
#include "config/folder.h"
#include "model_config.pb.h"
#include "serving/warmup.h"

namespace braid {

// Returns the samples of a normalised configuration, without those of batch size 0. Data files are read from
// {model_folder}/warmup/. Random data is the same at each load. Errors: INVALID_ARGUMENT that names the
// sample and the input, with the error of Folder::ReadFile().
Result<std::vector<WarmupSample>> MakeWarmupSamples(const inference::ModelConfig& config,
                                                    const Folder& model_folder);

}  // namespace braid
