// Settings of the trace extension as JSON.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "protocols/inference/context.h"
#include "serving/tracer.h"

namespace braid {

// Checks that a model has trace settings; "" is the global ones. Errors: that of an unknown model;
// UNSUPPORTED without a tracer.
Status CheckTraceModel(const ProtocolContext& context, const std::string& model);

// Returns the settings as the body of an answer.
std::string TraceSettingsJson(const TraceSettings& settings);
// Reads the body of POST .../trace/setting.
Result<TraceChanges> ReadTraceChanges(std::string_view body);

}  // namespace braid
