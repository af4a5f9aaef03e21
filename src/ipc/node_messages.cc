#include "ipc/node_messages.h"

#include "ipc/message_codec.h"

namespace braid {

constexpr NodeStepMessage::Kind LastOf(NodeStepMessage::Kind) { return NodeStepMessage::Kind::kError; }

BRAID_MESSAGE(NodeExecuteMessage);
BRAID_MESSAGE(NodeResumeMessage);
BRAID_MESSAGE(NodeCloseMessage);
BRAID_MESSAGE(NodeSessionMessage);
BRAID_MESSAGE(NodeDropMessage);
BRAID_MESSAGE(NodeStepMessage);

}  // namespace braid
