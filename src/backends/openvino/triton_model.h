// Loads models of a Triton repository into OpenVINO.
#pragma once

#include <memory>

#include "backends/openvino/runtime.h"
#include "base/log.h"
#include "model_config.pb.h"
#include "scheduling/backend.h"

namespace braid {

// See Backend::AutoComplete().
Status AutoCompleteTritonModel(const ModelLocation& location, OpenVinoRuntime& runtime,
                               inference::ModelConfig& config);

// See Backend::Create(). The configuration's parameters are properties of OpenVINO's plugin.
Result<std::unique_ptr<BackendModel>> CreateTritonModel(const ModelLocation& location,
                                                        const inference::ModelConfig& config,
                                                        OpenVinoRuntime& runtime, Logger& log);

}  // namespace braid
