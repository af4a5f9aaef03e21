// Applies the settings of a config.json to a model before it is compiled: shapes, batch sizes, layouts,
// precisions and image preprocessing (mean, scale, colours).
//
// Layouts are applied first, so shapes and batch sizes refer to the tensors as clients see them.
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
  // For tensors as clients see them, in the order of the model's ports.
  std::vector<std::string> input_layouts;
  std::vector<std::string> output_layouts;
};

// Applies the settings to `model`. Errors: Fault::kReshapeError for shapes that the model cannot have,
// INVALID_ARGUMENT for other bad settings; the text names the setting.
Result<AppliedSettings> ApplySettings(const OvmsModelConfig& config, const ModelNames& names,
                                      std::shared_ptr<ov::Model>& model);

}  // namespace braid
