// What clients of a config.json's servables hear where that is not what Triton's clients hear.
#pragma once

#include <functional>
#include <string_view>

#include "base/status.h"
#include "protocols/inference/context.h"
#include "serving/api_counters.h"
#include "serving/catalog.h"
#include "serving/ovms_status.h"
#include "serving/servable.h"

namespace braid {

// The base text of `code` with the text of `status` as details, where that is a fault of a client that has no
// code of OpenVINO Model Server yet; else `status`.
Status AsOvmsError(OvmsCode code, Status status);

// Why there is no servable for an inference request: `status`, but a name that nobody knows is looked for
// among the graphs last.
Status InferNotFound(const Catalog& catalog, std::string_view model, Status status);

// Whether there is something of this name, be it not loaded.
bool IsRegistered(const Catalog& catalog, std::string_view model);

// Whether the server is ready: OpenVINO Model Server is when it serves, whatever its models do; Triton may
// ask them (see ModelControl).
void CheckServerReady(const ProtocolContext& context, std::function<void(bool)> done);

// Why ModelConfig has no answer: what runs such a servable is not a client's business. UNSUPPORTED.
Status NoModelConfig(const ServableInfo& info);

// Counts a call that ended here, or an inference that was refused here; nothing for servables of Triton's
// dialect.
void CountCall(Servable& servable, ApiInterface interface, ApiMethod method);
void CountRefused(Servable& servable, ApiInterface interface, ApiMethod method);

}  // namespace braid
