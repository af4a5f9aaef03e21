// The options of OpenVINO Model Server, under their own names: a config.json or a single model, and their
// settings.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/status.h"
#include "server/options_table.h"

namespace braid {

std::span<const OptionSpec> OvmsOptionTable();

// Returns why this server lacks an option of OpenVINO Model Server's generative engine, and the alternative.
// Empty for other names.
std::string_view WhyNoOvmsOption(std::string_view name);

// Returns the default limit on HTTP request bodies with a config.json: that of OpenVINO Model Server, 1 GiB,
// but at most a quarter of the available memory.
uint64_t DefaultConfigInputSize();

// Sets the options that follow from these: the enabled protocols, no separate port for metrics, and the size
// of requests. Errors: INVALID_ARGUMENT for conflicting options, and for invalid settings of the model.
Status CompleteOvmsOptions(ServerOptions& options);

}  // namespace braid
