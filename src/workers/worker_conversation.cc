#include "workers/worker_conversation.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "ipc/messages.h"
#include "workers/worker_asks.h"

namespace braid {

WorkerConversation::WorkerConversation(std::shared_ptr<Channel> channel, Arena& arena,
                                       const WorkerServices& services, Logger& log, OriginOf origin_of)
    : services_(services),
      log_(log),
      origin_of_(std::move(origin_of)),
      begun_ns_(SteadyNowNs()),
      channel_(std::move(channel)),
      memory_(std::make_shared<WorkerMemory>(channel_, arena)),
      calls_(std::make_shared<WorkerCalls>(channel_, memory_, *services.catalog, services.shared_arrays)) {
  if (services.custom_metrics != nullptr) metrics_ = OpenMetrics(*services.custom_metrics, channel_);
}

Status WorkerConversation::Malformed() { return InvalidArgumentError("the worker sent a malformed message"); }

Result<bool> WorkerConversation::Handle(const std::vector<std::byte>& message) {
  switch (TypeOf(message)) {
    case MessageType::kRelease: {
      ReleaseMessage release;
      if (!Decode(message, release)) return Malformed();
      BRAID_RETURN_IF_ERROR(memory_->OnRelease(release));
      return true;
    }
    case MessageType::kRetireSegment: {
      RetireSegmentMessage retired;
      if (!Decode(message, retired)) return Malformed();
      BRAID_RETURN_IF_ERROR(memory_->OnRetire(retired.segment));
      return true;
    }
    case MessageType::kCall: {
      CallMessage call;
      if (!Decode(message, call)) return Malformed();
      Origin origin = origin_of_(call);
      BRAID_RETURN_IF_ERROR(calls_->Begin(call, std::move(origin.chain), std::move(origin.trace),
                                          std::max(origin.begun_ns, begun_ns_)));
      return true;
    }
    case MessageType::kCancelCall: {
      CancelCallMessage cancel;
      if (!Decode(message, cancel)) return Malformed();
      calls_->Cancel(cancel);
      return true;
    }
    case MessageType::kLog: {
      LogMessage log;
      if (!Decode(message, log)) return Malformed();
      WriteWorkerLog(log_, log);
      return true;
    }
    case MessageType::kAsk: {
      AskMessage ask;
      if (!Decode(message, ask)) return Malformed();
      HandleAsk(services_, ask, channel_, metrics_.get());
      return true;
    }
    default:
      return false;
  }
}

void WorkerConversation::Abandon() {
  metrics_.reset();
  // Calls first: nothing can take the memory that their responses would lend.
  calls_->Abandon();
  memory_->Abandon();
}

void WriteWorkerLog(Logger& log, const LogMessage& message) {
  const auto level =
      static_cast<LogLevel>(std::min<uint8_t>(message.level, static_cast<uint8_t>(LogLevel::kVerbose)));
  log.WriteLines(level, message.file, static_cast<int>(message.line), message.text);
}

}  // namespace braid
