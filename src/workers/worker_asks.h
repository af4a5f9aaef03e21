// Handles the questions of user code to the server: the answers go into the worker's channel.
#pragma once

#include <memory>

#include "ipc/channel.h"
#include "ipc/messages.h"
#include "workers/worker_services.h"

namespace braid {

// Passes a question to the handler of its topic; does not block. If the worker wants no answer, none is sent.
// Operations on custom metrics run at once and in order, on the objects in `metrics`; null when the process
// has none.
void HandleAsk(const WorkerServices& services, const AskMessage& ask, std::shared_ptr<Channel> channel,
               CustomMetrics::Session* metrics = nullptr);

// Opens the metrics of the process at the other end of `channel`.
std::unique_ptr<CustomMetrics::Session> OpenMetrics(CustomMetrics& metrics, std::shared_ptr<Channel> channel);

}  // namespace braid
