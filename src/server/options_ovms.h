// The options of OpenVINO Model Server, under their own names: a config.json or one model, and how it is
// served.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/status.h"
#include "server/options_table.h"

namespace braid {

std::span<const OptionSpec> OvmsOptionTable();

// Why this server lacks an option that OpenVINO Model Server has for its own generative engine, and what to do instead. Empty
// for other names.
std::string_view WhyNoOvmsOption(std::string_view name);

// The largest body of a request over HTTP where there is a config.json and nothing else was asked for: that
// of OpenVINO Model Server, 1 GiB, but at most a quarter of the memory there is.
uint64_t DefaultConfigInputSize();

// What follows from these options for others: which protocols are on, and that metrics have no port of their
// own, and the size of requests. Errors: INVALID_ARGUMENT for options that exclude one another, and for
// settings of the model that make no sense.
Status CompleteOvmsOptions(ServerOptions& options);

}  // namespace braid
