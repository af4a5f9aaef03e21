// The answers to what user code asks of the server, on their way into its worker's channel.
#pragma once

#include <memory>

#include "ipc/channel.h"
#include "ipc/messages.h"
#include "workers/worker_services.h"

namespace braid {

// Has the handler of the topic answer; does not block. Nothing is sent for an ask that wants no answer.
// Operations on custom metrics are carried out at once, in the order in which they come, on what `metrics`
// refers to; null when the process that asks has none.
void HandleAsk(const WorkerServices& services, const AskMessage& ask, std::shared_ptr<Channel> channel,
               CustomMetrics::Session* metrics = nullptr);

// What the process at the other end of `channel` refers to.
std::unique_ptr<CustomMetrics::Session> OpenMetrics(CustomMetrics& metrics, std::shared_ptr<Channel> channel);

}  // namespace braid
