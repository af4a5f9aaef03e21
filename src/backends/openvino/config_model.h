// Loads a model of a config.json: from its folder and its settings to idle infer requests.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "backends/openvino/runtime.h"
#include "base/log.h"
#include "config/ovms_config.h"
#include "scheduling/backend.h"
#include "serving/servable.h"

namespace braid {

// See OpenVinoBackend::Load(). Fills in `info`.
Result<std::unique_ptr<BackendModel>> LoadConfigModel(const OvmsModelConfig& config, int64_t version,
                                                      const std::string& version_path,
                                                      OpenVinoRuntime& runtime, Logger& log,
                                                      ServableInfo& info);

}  // namespace braid
