// Preprocessing of images by the settings mean, scale and color_format.
#pragma once

#include <string>

#include <openvino/openvino.hpp>

#include "base/status.h"
#include "config/ovms_config.h"

namespace braid {

// Adds the preprocessing steps for one input; returns false when the settings ask for none. `type` is the
// type that clients send, `model_type` the type that the model takes. The colours are reordered first, then
// the mean is subtracted, then the result is divided by the scale. Throws OpenVINO's exceptions. Errors:
// INVALID_ARGUMENT for settings that do not fit this input.
Result<bool> ApplyImageSettings(const OvmsModelConfig& config, const std::string& input_name,
                                const std::string& layout, const ov::element::Type& type,
                                const ov::element::Type& model_type, ov::preprocess::InputInfo& input);

}  // namespace braid
