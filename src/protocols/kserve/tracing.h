// The trace extension: starting the traces of requests, and the settings in terms of names and texts.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "protocols/http/message.h"
#include "protocols/kserve/kserve_context.h"
#include "serving/request.h"

namespace braid {

// Gives the request its trace, if this one is traced. REQUIRES: the request has its id, its servable and its
// start_ns. `tracer` may be null.
void StartTrace(Tracer* tracer, InferenceRequest& request, const TraceOrigin& origin);

// The same for a request that came over HTTP.
void StartHttpTrace(Tracer* tracer, InferenceRequest& request, const HttpHead& head, int64_t received_ns);

// Whether there are settings for such a model. `model` "" stands for the global ones.
// Errors: that of an unknown model; UNSUPPORTED without a tracer.
Status CheckTraceModel(const KserveContext& context, const std::string& model);

// The settings as the body of an answer.
std::string TraceSettingsJson(const TraceSettings& settings);
// The body of POST .../trace/setting.
Result<TraceChanges> ReadTraceChanges(std::string_view body);

}  // namespace braid
