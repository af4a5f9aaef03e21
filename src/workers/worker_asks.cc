#include "workers/worker_asks.h"

#include <utility>
#include <vector>

#include "workers/metric_operations.h"

namespace braid {

void HandleAsk(const WorkerServices& services, const AskMessage& ask, std::shared_ptr<Channel> channel,
               CustomMetrics::Session* metrics) {
  // The channel outlives the worker; unread answers are dropped with it.
  AskAnswer answer = [id = ask.ask_id, channel = std::move(channel)](Result<std::string> result) {
    if (id == 0) return;
    AnswerMessage message;
    message.ask_id = id;
    if (result.ok()) {
      message.text = *result;
    } else {
      message.code = result.status().code();
      message.error = result.status().message();
    }
    std::vector<std::byte> encoded;
    Encode(encoded, message);
    // If this fails, the worker has not read hundreds of MiB, or broke the rules; it is ended for that.
    (void)channel->Send(encoded);
  };
  if (ask.topic == AskTopic::kMetric && metrics != nullptr) {
    answer(PerformMetricOperation(*metrics, ask.text));
    return;
  }
  auto handler = services.asks.find(ask.topic);
  if (handler == services.asks.end()) {
    answer(UnsupportedError("this server does not support the model's request"));
  } else {
    handler->second(ask, std::move(answer));
  }
}

std::unique_ptr<CustomMetrics::Session> OpenMetrics(CustomMetrics& metrics,
                                                    std::shared_ptr<Channel> channel) {
  CustomMetrics::Progress progress;
  progress.sent = [channel] {
    // Some messages are sent without waking the receiving thread.
    channel->Interrupt();
    return channel->sent();
  };
  progress.handled = [channel = std::move(channel)] { return channel->handled(); };
  return metrics.Open(std::move(progress));
}

}  // namespace braid
