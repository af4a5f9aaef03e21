// Messages that a worker writes into its ring.
#include "ipc/messages.h"

#include "ipc/native_messages.h"
#include "ipc/node_messages.h"

namespace {

template <class Message>
void TryOne(std::span<const std::byte> in) {
  Message message;
  (void)Decode(in, message);
}

template <class... Messages>
void Try(std::span<const std::byte> in) {
  (TryOne<Messages>(in), ...);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace braid;
  const std::span<const std::byte> in(reinterpret_cast<const std::byte*>(data), size);
  Try<LoadMessage, ExecuteMessage, HelloMessage, LoadedMessage, ResponseMessage, ExecutedMessage, CallMessage,
      CancelCallMessage, AskMessage, AnswerMessage, CheckReadyMessage, ReadinessMessage, LogMessage,
      ReleaseMessage, RetireSegmentMessage>(in);
  Try<NodeExecuteMessage, NodeResumeMessage, NodeCloseMessage, NodeSessionMessage, NodeDropMessage,
      NodeStepMessage>(in);
  Try<NativeExecuteMessage, NativeExecutedMessage>(in);
  ResponseMessage response;
  (void)Decode(in, response, MessageType::kCallResponse);
  return 0;
}
