// The settings of the trace extension in terms of names and texts.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "protocols/inference/context.h"
#include "serving/tracer.h"

namespace braid {

// Whether there are settings for such a model. `model` "" stands for the global ones.
// Errors: that of an unknown model; UNSUPPORTED without a tracer.
Status CheckTraceModel(const ProtocolContext& context, const std::string& model);

// The settings as the body of an answer.
std::string TraceSettingsJson(const TraceSettings& settings);
// The body of POST .../trace/setting.
Result<TraceChanges> ReadTraceChanges(std::string_view body);

}  // namespace braid
