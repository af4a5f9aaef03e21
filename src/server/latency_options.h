// Selects the histograms and quantiles of a model's statistics, from the server's options and the model's
// configuration.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "server/options.h"
#include "serving/latency.h"
#include "serving/servable.h"

namespace braid {

// Warns of metric families that cannot be set per model. Errors: INVALID_ARGUMENT for an invalid
// model_metrics.
Result<LatencyOptions> LatencyOptionsFor(const ServableInfo& info, const ServerOptions& options, Logger& log);

// Parses "0.5:0.05,0.99:0.001": quantiles with their errors, each between 0 and 1. Errors: INVALID_ARGUMENT.
Result<std::vector<std::pair<double, double>>> ParseQuantiles(std::string_view text);

}  // namespace braid
