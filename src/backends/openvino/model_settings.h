// What a config.json says of a model, applied to it before it is compiled: shapes and batch sizes, layouts,
// precisions, and what is done to images (mean, scale, colours).
//
// Layouts come first, so shapes and batch sizes are meant as clients see the tensors.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <openvino/openvino.hpp>

#include "backends/openvino/tensor_names.h"
#include "base/status.h"
#include "config/ovms_config.h"

namespace braid {

struct AppliedSettings {
  // A shape or the batch size is "auto".
  bool automatic = false;
  // As clients see them, in the order of the model's ports.
  std::vector<std::string> input_layouts;
  std::vector<std::string> output_layouts;
};

// Changes `model`. Errors: Fault::kReshapeError for shapes that the model cannot have, INVALID_ARGUMENT
// for what else cannot be; the text names the setting.
Result<AppliedSettings> ApplySettings(const OvmsModelConfig& config, const ModelNames& names,
                                      std::shared_ptr<ov::Model>& model);

}  // namespace braid
