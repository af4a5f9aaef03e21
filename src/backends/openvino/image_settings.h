// mean, scale and color_format: what is done to an image before the model sees it.
#pragma once

#include <string>

#include <openvino/openvino.hpp>

#include "base/status.h"
#include "config/ovms_config.h"

namespace braid {

// Adds the steps that the settings ask for to one input; false when there are none. `type` is what clients
// send, `model_type` what the model takes. Colours are put into the model's order first, then the mean is
// taken away, then the rest is divided by the scale. Throws what OpenVINO throws. Errors: INVALID_ARGUMENT
// for settings that this input cannot have.
Result<bool> ApplyImageSettings(const OvmsModelConfig& config, const std::string& input_name,
                                const std::string& layout, const ov::element::Type& type,
                                const ov::element::Type& model_type, ov::preprocess::InputInfo& input);

}  // namespace braid
