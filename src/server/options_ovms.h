// The options of OpenVINO Model Server, under their own names: a config.json or one model, and how it is
// served.
#pragma once

#include <span>

#include "base/status.h"
#include "server/options_table.h"

namespace braid {

std::span<const OptionSpec> OvmsOptionTable();

// What follows from these options for others: which protocols are on, and that metrics have no port of their
// own. Errors: INVALID_ARGUMENT for options that exclude one another, and for settings of the model that make
// no sense.
Status CompleteOvmsOptions(ServerOptions& options);

}  // namespace braid
